"""German, Dutch, Polish and Russian wordings of statements that hold until they are taken back."""

from __future__ import annotations

from memory.pins.wordings.patterns import NAME, any_of, language

_DE = (
    r"(?:antworten?|verwenden?|benutzen?|nutzen?|schreiben?|schreib|geben|gib|nennen?|zeigen?|zeig|erklären?|erklär|"
    r"formatieren?|fügen?|halten?|sprechen|sprich|reden?|sagen?|sag|duzen?|siezen?|machen?|mach|begründen?|zitieren?|"
    r"vermeiden?|achten?|beachten?|beginnen?|lassen|lass|übersetzen?|rechnen?|runden?|fassen?|listen?|stellen?|"
    r"erinnern?|"
    r"fragen?|frag|prüfen?|berücksichtigen?)(?:\s+Sie)?"
)
_DE_EVER = r"(?:immer|stets|nie|niemals|grundsätzlich|ausschließlich|nur noch)"
_GERMAN = language(
    "de",
    fillers=r"bitte|und|aber|also|okay|ok|ach|übrigens|außerdem|auch|noch etwas|eins noch|wichtig|hinweis|hallo|hi|"
    r"danke|nun|"
    r"ja|nein|generell",
    links=r"und|aber|weil|da|denn|obwohl|dass|damit|sondern",
    leads=r"ab (?:jetzt|sofort|heute|nun)|von (?:jetzt|nun|heute) an|künftig|zukünftig|in Zukunft|fortan",
    cue=r"immer|stets|nie|niemals|grundsätzlich|ausschließlich|nur noch|wenn|rest|Antworten?|bevorzug\w*|vor|"
    r"lieber|liebsten|"
    r"Lieblings\w+|name|vorname|nachname|heiße|nenn\w*|vegetarier\w*|veganer\w*|vegan|allergisch|laktoseintolerant|"
    r"diabetiker\w*|geburtstag|muttersprache|zeitzone|pronomen|merk\w*|denk\w*|vergiss|vergessen|behalte|"
    r"ignorier\w*|mehr|auf",
    always=any_of(
        rf"{_DE}(?:\s+\w+){{0,3}}?\s+{_DE_EVER}\b",
        r"(?:immer|stets|nie|niemals)\s+[^,;?!]{2,80}\b(?:antworten|verwenden|benutzen|nutzen|schreiben|geben|"
        r"nennen|zeigen|"
        r"erklären|formatieren|halten|sprechen|sagen|begründen|zitieren|vermeiden|angeben|hinzufügen|übersetzen|"
        r"duzen|siezen)\s*[.!]*$",
        rf"(?:du\s+(?:sollst|musst|solltest)|Sie\s+(?:sollen|müssen|sollten))\s+(?:\w+\s+){{0,3}}?{_DE_EVER}\b",
        rf"ich\s+(?:möchte|will|wünsche mir|erwarte),?\s+dass\s+(?:du|Sie)\b[^.;]{{0,60}}\b{_DE_EVER}\b",
        r"(?:verwende|benutze|nutze|schreib|schreibe)(?:n\s+Sie)?\s+(?:in\s+(?:deinen|Ihren|allen)\s+Antworten)\b",
    ),
    lasting=any_of(
        r"\bfür den Rest (?:des|dieses|unseres) (?:Chats|Gesprächs)|\bin (?:allen|jeder|all)(?: deinen| Ihren|"
        r" deiner)? Antwort(?:en)?\b",
        r"\bwenn ich\b[^,]*\b(?:frage|bitte|erwähne|schreibe|sage|schicke)\b|\bbei (?:allen|jeder) (?:Fragen?|"
        r"Antwort(?:en)?)\b",
    ),
    directs=any_of(
        rf"{_DE}\b(?!\s+ich)",
        r"(?:sollst|musst|solltest)\s+du\b|(?:sollen|müssen|sollten)\s+Sie\b|du\s+(?:sollst|musst)\b|"
        r"Sie\s+(?:sollen|müssen)\b",
        r"(?:ich\s+)?(?:möchte|will)(?:\s+ich)?,?\s+dass\s+(?:du|Sie)\b|(?:nur|keine?n?)\b",
    ),
    polite=rf"(?:kannst|könntest|würdest)\s+du\s+(?:bitte\s+)?(?:ab jetzt|ab sofort|künftig|in Zukunft|{_DE_EVER})\b|"
    rf"(?:können|könnten|würden)\s+Sie\s+(?:bitte\s+)?(?:ab jetzt|ab sofort|künftig|in Zukunft|{_DE_EVER})\b",
    prefer=any_of(
        r"ich\s+(?:\w+\s+){0,2}?bevorzuge\b|bevorzuge\s+ich\b|ich\s+ziehe\s+[^,;.?!]{2,60}?\svor\b",
        r"mir\s+(?:ist|sind)\s+[^,;.?!]{2,60}?\slieber\b|ich\s+(?!würde|will|wollte|hätte|"
        r"wäre)\w+\s+(?:\w+\s+){0,6}?(?:lieber|am liebsten)\b",
        r"am\s+liebsten\s+(?!würde|hätte|wäre)\w+\s+ich\b|meine?\s+Lieblings\w+\s+(?:ist|sind)\b",
    ),
    identity=any_of(
        rf"mein\s+(?:voller\s+|richtiger\s+)?(?:Name|Vorname|Nachname)\s+ist\s+{NAME}|ich\s+heiße\s+{NAME}|"
        rf"nenn(?:e|en\s+Sie)?\s+mich\s+{NAME}",
        r"ich\s+bin\s+(?:\w+\s+)?(?:Vegetarier(?:in)?|Veganer(?:in)?|vegan|allergisch|laktoseintolerant|"
        r"Diabetiker(?:in)?)\b|ich\s+bin\s+gegen\s+[^,;.]{2,40}\sallergisch\b",
        r"meine?\s+(?:Geburtstag|Muttersprache|Zeitzone|Pronomen)\s+(?:ist|sind)\b",
    ),
    remember=r"(?:merke?\s+dir|merken\s+Sie\s+sich|denke?\s+(?:immer\s+)?daran|denken\s+Sie\s+daran|"
    r"vergiss\s+nicht|vergessen\s+Sie\s+nicht|"
    r"behalte?\s+(?:bitte\s+)?im\s+Kopf)\s*,?\s+(?:bitte\s*,?\s+)?(?:dass\s+(?:ich|wir|mein|meine|unser|alle|"
    r"jede)\b|für\s+(?:später|die Zukunft)\b|meine?n?\b)",
    take_back=any_of(
        r"(?P<stop>hör(?:e|en\s+Sie)?\s+auf\b[^;.!?]*)|(?:vergiss|vergessen\s+Sie|ignoriere?|ignorieren\s+Sie|"
        r"streich|streiche)\s+(?!nicht)"
        r"(?:das\s+mit\s+|die\s+Sache\s+mit\s+|was\s+ich\s+(?:über|zu|von)\s+)?(?P<back>[^,;.!?]+)",
        r"(?:du\s+musst|du\s+brauchst|Sie\s+müssen|Sie\s+brauchen)\s+(?P<need>[^,;.!?]*?(?:nicht|"
        r"keine?n?\s+[^,;.!?]*?)\s*\bmehr\b[^,;.!?]*)",
        r"ich\s+(?:möchte|will|brauche|bevorzuge)\s+(?P<want>[^,;.!?]+?)\s+nicht\s+mehr|ich\s+(?:möchte|will|"
        r"brauche)\s+(?P<none>keine?n?\s+[^,;.!?]+?)\s+mehr",
    ),
    asks=r"(?:was|wer|wie|wo|wann|warum|wieso|weshalb|welche[rsmn]?|ist|sind|kannst?|können|soll(?:te|st|ten|en)?|"
    r"darf|dürfen|hast|"
    r"hat|haben|würdest|gibt|muss|wird|magst|bevorzugst)\b",
    says=r"sagt|sagte|meint|meinte|schrieb|schreibt|behauptet|fragt|fragte|er|ob",
)

_NL = (
    r"(?:antwoord|gebruik|schrijf|geef|vermeld|noem|toon|laat|leg|voeg|spreek|praat|citeer|vermijd|houd|hou|begin|"
    r"eindig|vertaal|"
    r"beperk|controleer|rond|stel|maak|zeg|vertel|herinner|zet|formatteer|presenteer)"
)
_DUTCH = language(
    "nl",
    fillers=r"alsjeblieft|alstublieft|graag|en|maar|dus|oké|ok|hallo|hoi|bedankt|trouwens|ook|verder|nog iets|"
    r"let op|belangrijk|over het algemeen|ja|nee",
    links=r"en|maar|omdat|want|hoewel|dat|dus",
    leads=r"vanaf (?:nu|vandaag|heden)|van nu af aan|voortaan|in de toekomst|in het vervolg",
    cue=r"altijd|nooit|steeds|uitsluitend|rest|antwoord|antwoorden|wanneer|als|keer|liever|liefst|voorkeur|"
    r"prefereer|favoriete|lievelings\w+|"
    r"naam|heet|noem|vegetari\w+|veganist|vegan|allergisch|diabeet|lactose\w*|verjaardag|moedertaal|tijdzone|"
    r"voornaamwoorden|onthoud|"
    r"vergeet|eraan|rekening|noteer|stop|negeer|meer",
    always=any_of(
        rf"{_NL}(?:\s+\w+){{0,3}}?\s+(?:altijd|nooit|steeds|uitsluitend)\b",
        r"(?:altijd|nooit)\s+[^,;?!]{2,80}\b(?:antwoorden|gebruiken|schrijven|geven|vermelden|noemen|tonen|"
        r"uitleggen|toevoegen|spreken|citeren)\s*[.!]*$",
        r"(?:je|jij|u)\s+(?:moet|dient)\s+(?:\w+\s+){0,3}?(?:altijd|nooit)\b|ik\s+(?:wil|"
        r"zou\s+graag\s+willen)\s+dat\s+(?:je|u)\b[^.;]{0,40}\b(?:altijd|nooit)\b",
    ),
    lasting=any_of(
        r"\bvoor de rest van (?:dit|het|ons) gesprek|\bin al (?:je|uw) antwoorden\b|\bbij (?:elke|alle|"
        r"iedere) (?:vraag|vragen|antwoord|antwoorden)\b",
        r"\b(?:wanneer|als|elke keer dat|telkens als)\s+ik\b[^,]*\b(?:vraag|noem|schrijf|zeg|stuur)\b",
    ),
    directs=any_of(
        rf"{_NL}\b",
        r"(?:moet|dien)\s+(?:je|u)\b|(?:je|u)\s+(?:moet|dient)\b|"
        r"(?:ik\s+)?wil(?:\s+ik)?\s+(?:graag\s+)?dat\s+(?:je|u)\b",
    ),
    polite=r"(?:kun|kan|zou)\s+(?:je|u)\s+(?:alsjeblieft\s+)?(?:altijd|voortaan|vanaf nu)\b",
    prefer=any_of(
        r"ik\s+(?:\w+\s+)?geef\s+(?:\w+\s+){0,2}?(?:de\s+)?voorkeur\s+aan\b|ik\s+prefereer\b|ik\s+(?!zou|wil|wilde|"
        r"had)\w+\s+(?:\w+\s+){0,5}?(?:liever|het\s+liefst)\b",
        r"mijn\s+voorkeur\s+(?:gaat|is)\b|mijn\s+favoriete\s+[^,;.?!]{2,30}?\s(?:is|zijn)\b|"
        r"mijn\s+lievelings\w+\s+(?:is|zijn)\b",
    ),
    identity=any_of(
        rf"mijn\s+(?:naam|voornaam|achternaam)\s+is\s+{NAME}|ik\s+heet\s+{NAME}|noem\s+(?:me|mij)\s+{NAME}",
        r"ik\s+ben\s+(?:\w+\s+)?(?:vegetariër|vegetarisch|veganist|vegan|allergisch\s+voor|diabeet|"
        r"lactose-?\s?intolerant)(?!\w)",
        r"mijn\s+(?:verjaardag|moedertaal|tijdzone)\s+is\b|mijn\s+voornaamwoorden\s+zijn\b",
    ),
    remember=r"(?:onthoud|vergeet\s+niet|denk\s+eraan|houd?\s+er\s+rekening\s+mee|"
    r"noteer)\s*,?\s+(?:alsjeblieft\s+)?(?:dat\s+)?"
    r"(?:ik\b|mijn\b|we\b|wij\b|ons\b|onze\b|voor\s+(?:later|de\s+volgende)\b)",
    take_back=any_of(
        r"(?P<stop>(?:stop|hou\s+op)\s+met\s+[^,;.!?]+)|(?:vergeet|negeer|"
        r"laat\s+maar)\s+(?!niet)(?:wat\s+ik\s+(?:zei|heb\s+gezegd)\s+over\s+)?(?P<back>[^,;.!?]+)",
        r"(?:je|u)\s+hoeft\s+(?P<need>[^,;.!?]*?(?:niet|geen)\s+meer[^,;.!?]*|"
        r"[^,;.!?]*?geen\s+[^,;.!?]*\smeer\b[^,;.!?]*)|ik\s+(?:wil|gebruik)\s+(?P<want>[^,;.!?]+?)\s+niet\s+meer",
    ),
    asks=r"(?:wat|wie|hoe|waar|wanneer(?!\s+ik)|waarom|welke?|is|zijn|kan|kun|kunt|mag|moet\s+ik|zou|heb|heeft|"
    r"geef\s+je)\b",
    says=r"zei|zegt|zeggen|schreef|vroeg|vindt|denkt|of|hij|zij",
)

_PL = (
    r"(?:odpowiadaj|odpowiedz|używaj|użyj|stosuj|pisz|podawaj|podaj|dawaj|daj|dodawaj|dodaj|wyjaśniaj|wyjaśnij|"
    r"pokazuj|pokaż|mów|cytuj|"
    r"unikaj|zaczynaj|kończ|formatuj|przedstawiaj|proponuj|nazywaj|zwracaj\s+się|rób|tłumacz|sprawdzaj|zaokrąglaj|"
    r"przeliczaj|"
    r"przypominaj|wymieniaj|uwzględniaj|trzymaj)"
)
_POLISH = language(
    "pl",
    fillers=r"proszę|i|a|ale|więc|ok|okej|dobrze|cześć|dzięki|dziękuję|przy okazji|też|również|ponadto|"
    r"jeszcze jedno|uwaga|ważne|ogólnie|tak",
    links=r"i|a|ale|bo|ponieważ|gdyż|choć|że|więc",
    leads=r"od (?:teraz|dzisiaj|dziś|tej pory|tego momentu)|na przyszłość|w przyszłości|odtąd",
    cue=r"zawsze|nigdy|wyłącznie|końca|odpowiedzi|odpowiedziach|kiedy|gdy|jeśli|ilekroć|razem|wolę|preferuję|"
    r"bardziej|ulubion\w+|imię|nazywam|"
    r"mów|nazywaj|wegetarian\w+|wegan\w+|uczulon\w|alergi\w+|uczulenie|cukrzykiem|zaimki|język|strefa|pamiętaj|"
    r"zapamiętaj|uwadze|"
    r"zapomnij|zapominaj|zanotuj|zapisz|przestań|zignoruj|anuluj|już",
    always=any_of(
        rf"(?:zawsze|nigdy)\s+(?:mi\s+)?(?:nie\s+)?{_PL}\b|{_PL}\s+(?:\w+\s+){{0,3}}?(?:zawsze|wyłącznie)\b",
        r"(?:masz|musisz|powinieneś|powinnaś)\s+(?:zawsze|nigdy)\b|chcę,?\s+(?:że|a)?byś\b[^.;]{0,40}\b(?:zawsze|"
        r"nigdy)\b",
    ),
    lasting=any_of(
        r"\bdo końca (?:tej )?rozmowy\b|\bwe wszystkich (?:swoich |twoich )?odpowiedziach\b|\bw każdej odpowiedzi\b",
        r"\b(?:kiedy|gdy|jeśli|ilekroć)\s+(?:cię\s+|ci\s+)?(?:pytam|zapytam|proszę|poproszę|wspominam|wspomnę|"
        r"piszę|napiszę|mówię|powiem|wysyłam|wyślę)\b",
    ),
    directs=any_of(
        rf"(?:nie\s+)?{_PL}\b",
        r"(?:masz|musisz|powinieneś|powinnaś)\b|(?:chcę|chciałbym|chciałabym),?\s+(?:że|a)?byś\b",
    ),
    polite=r"(?:czy\s+)?(?:możesz|mógłbyś|mogłabyś)\s+(?:proszę\s+)?(?:zawsze|od teraz)\b",
    prefer=any_of(
        r"(?:ja\s+)?(?:zwykle\s+|zazwyczaj\s+|zawsze\s+|osobiście\s+|zdecydowanie\s+)?(?:wolę|"
        r"preferuję)\b(?!\s+nie\s+mówić)",
        r"bardziej\s+(?:lubię|podoba\s+mi\s+się|podobają\s+mi\s+się)\b|lubię\s+[^,;.?!]{2,50}?\sbardziej\s+niż\b|"
        r"(?:mój|moja|moje|moim|moją)\s+ulubion\w+\s+[^,;.?!]{2,40}?\s?(?:to|jest|są)\b",
    ),
    identity=any_of(
        rf"(?:mam\s+na\s+imię|nazywam\s+się|moje\s+imię\s+to)\s+{NAME}|mów\s+(?:mi|do\s+mnie)\s+{NAME}|"
        rf"nazywaj\s+mnie\s+{NAME}",
        r"jestem\s+(?:wegetarian(?:inem|ką)|wegan(?:inem|ką)|uczulon[ya]\s+na|alergikiem|cukrzykiem)(?!\w)|"
        r"mam\s+(?:alergię|uczulenie)\s+na\b",
        r"moje\s+zaimki\s+to\b|mój\s+język\s+ojczysty\s+to\b|moja\s+strefa\s+czasowa\s+to\b",
    ),
    remember=r"(?:pamiętaj|zapamiętaj|miej\s+na\s+uwadze|nie\s+zapom(?:nij|inaj)|zanotuj|"
    r"zapisz)\s*,?\s+(?:proszę\s*,?\s+)?(?:że\s+)?"
    r"(?:ja\b|mój\b|moja\b|moje\b|mam\b|jestem\b|mieszkam\b|pracuję\b|wolę\b|nasz\w*\b|nie\s+(?:jem|mogę|używam|"
    r"lubię)\b|na\s+(?:przyszłość|później)\b)",
    take_back=any_of(
        r"(?P<stop>przestań\s+\w+ć\b[^,;.!?]*)|(?:zapomnij\s+o|zignoruj|ignoruj|anuluj|"
        r"odwołuję)\s+(?P<back>[^,;.!?]+)",
        r"(?:nie\s+musisz\s+już|już\s+nie\s+musisz)\s+(?P<need>[^,;.!?]+)|(?:już\s+nie|nie)\s+(?:chcę|wolę|"
        r"potrzebuję)\s+już\s+(?P<want>[^,;.!?]+)|już\s+nie\s+(?:chcę|wolę|potrzebuję)\s+(?P<none>[^,;.!?]+)",
    ),
    asks=r"(?:co|kto|jak|gdzie|kiedy(?!\s+(?:cię\s+|ci\s+)?(?:pytam|zapytam|proszę|poproszę|piszę|mówię))|dlaczego|"
    r"czemu|któr\w+|ile|czy|możesz|mógłbyś|wolisz)\b",
    says=r"powiedział\w*|mówi|napisał\w*|twierdzi|uważa|pyta\w*|on|ona",
)

_RU = (
    r"(?:(?:отвечай|используй|давай|указывай|добавляй|объясняй|показывай|цитируй|избегай|начинай|заканчивай|"
    r"форматируй|предлагай|"
    r"называй|делай|проверяй|округляй|напоминай|учитывай|присылай|перечисляй)(?:те)?|(?:пиши|говори|приводи|"
    r"переводи)(?:те)?|"
    r"обращай(?:ся|тесь)|придерживай(?:ся|тесь))"
)
_RUSSIAN = language(
    "ru",
    fillers=r"пожалуйста|и|а|но|так|ок|окей|хорошо|привет|спасибо|кстати|также|ещё|еще|важно|в общем|вообще|да|нет|"
    r"обычно",
    links=r"и|а|но|потому что|так как|поскольку|хотя|что|поэтому",
    leads=r"с этого (?:момента|дня)|отныне|впредь|в дальнейшем|в будущем|с сегодняшнего дня",
    cue=r"всегда|никогда|исключительно|только|конца|ответах|ответе|когда|если|предпочитаю|больше|лучше|любим\w+|"
    r"зовут|имя|называй\w*|зови\w*|"
    r"вегетариан\w+|веган\w*|диабетик|аллергия|непереносимость|родной|пояс|рождения|запомни\w*|помни\w*|забывай\w*|"
    r"забудь\w*|виду|учти\w*|"
    r"запиши\w*|перестань\w*|прекрати\w*|хватит|отмени\w*|игнорируй\w*",
    always=any_of(
        rf"(?:всегда|никогда)\s+(?:мне\s+)?(?:больше\s+)?(?:не\s+)?{_RU}\b|{_RU}\s+(?:\w+\s+){{0,3}}?(?:всегда|"
        rf"исключительно|только\s+на)\b",
        r"(?:ты|вы)\s+долж(?:ен|на|ны)\s+(?:всегда|никогда)\b|я\s+(?:хочу|хотела?\s+бы),?\s+чтобы\s+(?:ты|"
        r"вы)\b[^.;]{0,40}\b(?:всегда|никогда)\b",
    ),
    lasting=any_of(
        r"\bдо конца (?:этого )?разговора\b|\bво всех (?:своих |твоих |ваших )?ответах\b|\bв каждом ответе\b",
        r"\b(?:когда|если)\s+я\s+(?:тебя\s+|вас\s+)?(?:спрашиваю|спрошу|прошу|попрошу|упоминаю|упомяну|пишу|говорю|"
        r"скажу|отправляю)\b",
    ),
    directs=any_of(
        rf"(?:не\s+)?{_RU}\b",
        r"(?:ты|вы)\s+долж(?:ен|на|ны)\b|я\s+(?:хочу|хотела?\s+бы),?\s+чтобы\s+(?:ты|вы)\b",
    ),
    polite=r"(?:можешь|можете|мог(?:ла|ли)?\s+бы)\s+(?:ты\s+|вы\s+)?(?:пожалуйста\s+)?(?:всегда|впредь)\b",
    prefer=any_of(
        r"(?:я\s+)?(?:\w+\s+)?предпочитаю\b|мне\s+(?:больше|лучше)\s+(?:нрав|подход)\w+|я\s+больше\s+люблю\b|"
        r"я\s+люблю\s+[^;.?!]{2,50}?\sбольше,?\s+чем\b",
        r"мо(?:й|я|ё|е|и)\s+любим\w+\s+[^,;.?!]{2,40}?\s?(?:—|–|-|это)\s",
    ),
    identity=any_of(
        rf"меня\s+зовут\s+{NAME}|мо[её]\s+имя\s*(?:—|–|-)?\s*{NAME}|(?:называй|зови)(?:те)?\s+меня\s+{NAME}",
        r"я\s+(?:\w+\s+)?(?:вегетариан(?:ец|ка)|веган(?:ка)?|диабетик)\b|у\s+меня\s+(?:\w+\s+)?(?:аллергия|"
        r"непереносимость)\b",
        r"мой\s+(?:родной\s+язык|часовой\s+пояс|день\s+рождения)\b",
    ),
    remember=r"(?:запомни|помни|не\s+забывай|не\s+забудь|имей|учти|"
    r"запиши)(?:те)?(?:\s+в\s+виду)?\s*[,:]?\s+(?:пожалуйста\s*,?\s+)?(?:что\s+)?"
    r"(?:я\b|мо(?:й|я|ё|е|и)\b|у\s+меня\b|мне\b|мы\b|наш\w*\b|на\s+будущее\b)",
    take_back=any_of(
        r"(?P<stop>(?:перестань|прекрати)(?:те)?\s+\w+ть\b[^,;.!?]*|хватит\s+\w+ть\b[^,;.!?]*)|(?:забудь|отмени|"
        r"игнорируй)(?:те)?\s+(?:про\s+|о\s+|об\s+)?"
        r"(?:то,\s+что\s+я\s+(?:говорил|сказал)а?\s+(?:про|о|об)\s+)?(?P<back>[^,;.!?]+)",
        r"(?:больше\s+не\s+(?:нужно|надо)|не\s+(?:нужно|надо)\s+больше)\s+(?P<need>[^,;.!?]+)|"
        r"я\s+больше\s+не\s+(?:хочу|предпочитаю|использую)\s+(?P<want>[^,;.!?]+)",
    ),
    asks=r"(?:что|кто|как|где|когда(?!\s+я)|почему|зачем|как(?:ой|ая|ие|ое)|сколько|можешь|можете|мог(?:ла|"
    r"ли)?\s+бы|стоит\s+ли)\b",
    says=r"сказал\w*|говорит|написал\w*|считает|думает|спросил\w*|он|она",
)

GERMANIC_SLAVIC = (_GERMAN, _DUTCH, _POLISH, _RUSSIAN)
