"""French, Spanish, Italian and Portuguese wordings of statements that hold until they are taken back."""

from __future__ import annotations

from memory.pins.wordings.patterns import NAME, any_of, language

_FR = (
    r"(?:réponds|répondez|utilise[sz]?|emploie|employez|écris|écrivez|donne[sz]?|indique[sz]?|précise[sz]?|mets|"
    r"mettez|inclus|"
    r"incluez|ajoute[sz]?|explique[sz]?|montre[sz]?|parle[sz]?|tutoie|tutoyez|vouvoie|vouvoyez|cite[sz]?|"
    r"évite[sz]?|garde[sz]?|"
    r"commence[sz]?|termine[sz]?|formate[sz]?|présente[sz]?|propose[sz]?|rappelle|appelle|appelez|fais|faites|dis|"
    r"dites|"
    r"traduis|traduisez|limite[sz]?|vérifie[sz]?|arrondis|convertis)(?:-(?:moi|les|le|la))?"
)
_FRENCH = language(
    "fr",
    fillers=r"s'il (?:te|vous) plaît|stp|svp|et|mais|donc|alors|ok|d'accord|au fait|aussi|merci|bonjour|salut|note|"
    r"important|"
    r"encore une chose|en général|oui|non|bref",
    links=r"et|mais|donc|car|parce que|puisque|comme|bien que|que|alors",
    leads=r"à partir (?:de maintenant|d'aujourd'hui)|dorénavant|désormais|à l'avenir|dès maintenant|pour la suite",
    cue=r"toujours|systématiquement|jamais|uniquement|exclusivement|réponses?|fois|quand|lorsque|si|fin|préf\w+|"
    r"mieux|plus|"
    r"davantage|appelle|appelez|appelle-moi|nom|prénom|végétari\w+|végétali\w+|vegan|allergique|intolérante?|"
    r"diabétique|"
    r"pronoms|anniversaire|langue|fuseau|souviens|souvenez|rappelle|rappelez|retiens|retenez|note|notez|oublie\w?|"
    r"garde\w?|"
    r"ignore\w?|laisse\w?|annule\w?|besoin|arrête\w?|cesse\w?",
    always=any_of(
        rf"{_FR}\s+(?:\w+\s+){{0,2}}?(?:toujours|systématiquement|exclusivement)\b|"
        rf"ne\s+(?:me\s+)?{_FR}\s+(?:plus\s+)?jamais\b",
        r"(?:toujours|ne\s+jamais)\s+(?:répondre|utiliser|écrire|donner|indiquer|inclure|ajouter|expliquer|citer|"
        r"employer|parler|préciser|mettre)\b",
        r"(?:tu\s+(?:dois|devrais)|vous\s+(?:devez|devriez))\s+(?:toujours|systématiquement|ne\s+jamais)\b",
        r"(?:je\s+(?:veux|voudrais|souhaite)|j'aimerais)\s+que\s+(?:tu|vous)\b[^.;]{0,40}\b(?:toujours|jamais)\b",
        r"(?:réponds|répondez|écris|écrivez|parle|parlez)(?:-moi)?\s+(?:\w+\s+)?(?:uniquement|seulement)\s+en\b",
    ),
    lasting=any_of(
        r"\bjusqu'à la fin de (?:cette|la|notre) (?:conversation|discussion)|\bdans (?:toutes|chacune de) (?:tes|"
        r"vos|les) réponses\b",
        r"\b(?:chaque fois que|quand|lorsque|si)\s+je\s+(?:te\s+|vous\s+|t'|m')?(?:demande|pose|parle|mentionne|"
        r"écris|dis|envoie)\b",
        r"\bpour (?:toutes|chaque)(?: mes| tes| vos| les)? (?:questions?|réponses?)\b",
    ),
    directs=any_of(
        rf"{_FR}\b|n[e']\s*{_FR}\b|(?:tu\s+(?:dois|devrais)|vous\s+(?:devez|devriez)|il\s+faut)\b",
        r"(?:je\s+(?:veux|voudrais|souhaite)|j'aimerais)\s+que\s+(?:tu|vous)\b",
    ),
    polite=r"(?:peux-tu|pourrais-tu|pouvez-vous|pourriez-vous)\s+(?:s'il (?:te|vous) plaît\s+)?(?:toujours|"
    r"désormais|dorénavant|systématiquement)\b",
    prefer=any_of(
        r"je\s+(?:\w+\s+)?préfère\b(?!\s+ne\s+pas)|j'aime\s+(?:bien\s+)?(?:mieux|davantage)\b|"
        r"j'aime\s+[^,;.?!]{2,50}?\s(?:plus|mieux)\s+que\b",
        r"(?:mon|ma|mes)\s+[^,;.?!]{2,30}?\spréférée?s?\s+(?:est|sont)\b|ma\s+préférence\s+(?:va|est)\b|"
        r"je\s+n'aime\s+pas\s+que\s+(?:tu|vous)\b",
    ),
    identity=any_of(
        rf"je\s+m'appelle\s+{NAME}|mon\s+(?:nom|prénom)\s+(?:est|c'est)\s+{NAME}|appelle[sz]?-moi\s+{NAME}|"
        rf"appelez-moi\s+{NAME}",
        r"je\s+suis\s+(?:\w+\s+)?(?:végétarien(?:ne)?|végétalien(?:ne)?|vegan|allergique\s+(?:à|au|aux)|"
        r"intolérante?\s+(?:à|au)|diabétique)(?!\w)",
        r"mes\s+pronoms\s+sont\b|mon\s+anniversaire\s+est\b|ma\s+langue\s+maternelle\s+est\b|"
        r"mon\s+fuseau\s+horaire\s+est\b",
    ),
    remember=r"(?:souviens-toi|souvenez-vous|rappelle-toi|rappelez-vous|retiens|retenez|notez?|n'oublie[sz]?\s+pas|"
    r"garde[sz]?\s+(?:à\s+l'esprit|en\s+tête))\s+"
    r"(?:bien\s+)?(?:que\s+|de\s+|qu')?(?:je\b|j'|mon\b|ma\b|mes\b|nous\b|notre\b|nos\b|toujours\b|ne\s+jamais\b|"
    r"pour\s+(?:la\s+suite|plus\s+tard|l'avenir))",
    take_back=any_of(
        r"(?P<stop>(?:arrête[sz]?|cesse[sz]?)\s+d[e'][^,;.!?]+)|(?:oublie[sz]?|ignore[sz]?|laisse[sz]?\s+tomber|"
        r"annule[sz]?)\s+(?!pas\b)"
        r"(?:ce\s+que\s+j'ai\s+dit\s+(?:sur|à\s+propos\s+de|pour)\s+|ma\s+(?:demande|consigne|préférence)\s+(?:de|"
        r"des|sur)\s+)?(?P<back>[^,;.!?]+)",
        r"(?:tu\s+n'as|vous\s+n'avez|je\s+n'ai)\s+plus\s+besoin\s+d[e']\s*(?P<need>[^,;.!?]+)|"
        r"plus\s+besoin\s+d[e']\s*(?P<none>[^,;.!?]+)",
        r"je\s+ne\s+(?:veux|préfère|souhaite)\s+plus\s+(?P<want>[^,;.!?]+)",
    ),
    asks=r"(?:que|qu'|quel(?:le)?s?|qui|quoi|où|quand(?!\s+je)|comment|pourquoi|combien|est-ce|peux-tu|pouvez-vous|"
    r"pourrais-tu|"
    r"pourriez-vous|as-tu|avez-vous|dois-je|puis-je|faut-il|préfères-tu|es-tu)(?!\w)",
    says=r"dit|disait|pense|écrit|écrivait|demande|il|elle|ils|elles|si",
)

_ES = (
    r"(?:respond[ea](?:me)?|respónd[ea]me|contest[ae]|contéstame|us[ae]|utili[zc][ae]|escrib[ea]|da|dé|dame|deme|"
    r"indi(?:ca|que)|incluy[ea]|"
    r"añad[ea]|agreg(?:a|ue)|expli(?:ca|que)|explícame|muestr[ae]|muéstrame|habl[ae]|háblame|cit[ae]|evit[ae]|mantén|"
    r"mantenga|empie(?:za|ce)|comien(?:za|ce)|termin[ae]|format[ea]e?|present[ae]|propón|llámame|haz|haga|di|dime|"
    r"diga|"
    r"tradu(?:ce|zca)|limit[ae]|comprueb[ae]|verifi(?:ca|que)|redonde[ae]|conviert[ea]|trátame|recuérdame|pon|"
    r"ponga|sugier[ea]|recomiend[ea])"
)
_SPANISH = language(
    "es",
    fillers=r"por favor|y|pero|así que|entonces|ok|vale|bueno|hola|gracias|por cierto|además|también|nota|"
    r"importante|una cosa más|"
    r"en general|sí",
    links=r"y|pero|porque|ya que|como|aunque|que|así que|pues",
    leads=r"a partir de (?:ahora|hoy)|de (?:ahora|hoy|aquí) en adelante|en adelante|desde (?:ahora|hoy)|en el futuro",
    cue=r"siempre|nunca|jamás|únicamente|exclusivamente|respuestas?|resto|cuando|vez|si|prefier\w*|prefer\w*|"
    r"favorit\w+|preferid\w+|más|gusta|"
    r"llamo|nombre|llámame|llámeme|vegetarian\w|vegan\w|alérgic\w|celíac\w|diabétic\w|intolerante|pronombres|"
    r"cumpleaños|lengua|"
    r"idioma|zona|recuerd\w|acuérdate|cuenta|olvid\w+|olvídate|nota|anota|ignora|cancela|deja|deje|ya no",
    always=any_of(
        rf"(?:siempre|nunca|jamás)\s+(?:me\s+)?(?:{_ES}|respondas|contestes|uses|utilices|escribas|des|incluyas|"
        rf"añadas|expliques|hables|"
        r"pongas|hagas|digas|responder|usar|utilizar|incluir|escribir|contestar|dar|indicar|citar)\b",
        rf"{_ES}\s+(?:\w+\s+){{0,2}}?siempre\b|no\s+(?:me\s+)?\w+[ae]s\s+nunca\b|(?:responde|escribe|"
        rf"habla)(?:me)?\s+(?:únicamente|exclusivamente|solo|sólo)\s+en\b",
        r"(?:debes?|tienes?\s+que|deberías?)\s+(?:siempre|nunca)\b|quiero\s+que\s+(?:siempre|nunca)\b",
    ),
    lasting=any_of(
        r"\b(?:durante|por) el resto de (?:la|esta) (?:conversación|charla)|\ben todas (?:tus|sus|"
        r"las) respuestas\b|\bpara todas (?:mis|tus|las) (?:preguntas|respuestas)\b",
        r"\b(?:cuando|siempre que|cada vez que|si)\s+(?:te\s+|le\s+)?(?:pregunt[eo]|pid[ao]|mencion[eo]|habl[eo]|"
        r"escrib[ao]|dig[ao]|envíe|mande)\b",
    ),
    directs=any_of(
        rf"{_ES}\b|no\s+(?:me\s+)?(?:uses|utilices|escribas|incluyas|pongas|des|respondas|hables|hagas|digas|use|"
        rf"utilice|escriba|incluya|ponga)\b",
        r"(?:debes?|tienes?\s+que|deberías?)\b|(?:quiero|quisiera|me\s+gustaría)\s+que\b",
    ),
    polite=r"(?:puedes|podrías|puede|podría)\s+(?:por favor\s+)?(?:siempre|a partir de ahora)\b",
    prefer=any_of(
        r"(?:yo\s+)?(?:siempre\s+|normalmente\s+|generalmente\s+|personalmente\s+)?prefiero\b(?!\s+no\s+decir)|"
        r"mi\s+preferencia\s+es\b",
        r"(?:a\s+mí\s+)?me\s+gustan?\s+(?:mucho\s+)?más\b|me\s+gustan?\s+[^,;.?!]{2,50}?\smás\s+que\b|"
        r"mis?\s+[^,;.?!]{2,30}?\s(?:favorit|preferid)[oa]s?\s+(?:es|son)\b",
        r"no\s+me\s+gusta\s+que\s+(?:me\s+)?\w+[ae]s\b",
    ),
    identity=any_of(
        rf"me\s+llamo\s+{NAME}|mi\s+nombre\s+es\s+{NAME}|(?:puedes\s+)?llám[ae]me\s+{NAME}|"
        rf"(?:puedes\s+)?llamarme\s+{NAME}",
        r"(?:yo\s+)?soy\s+(?:\w+\s+)?(?:vegetarian[oa]|vegan[oa]|alérgic[oa]\s+a|celíac[oa]|diabétic[oa]|"
        r"intolerante\s+a)(?!\w)",
        r"mis\s+pronombres\s+son\b|mi\s+(?:cumpleaños|lengua\s+materna|idioma\s+materno|zona\s+horaria)\s+es\b",
    ),
    remember=r"(?:recuerd[ae]|acuérdate|ten(?:ga)?\s+en\s+cuenta|no\s+(?:te\s+|se\s+)?olvid(?:e|es)|toma\s+nota|"
    r"anota)\s+(?:de\s+)?(?:que\s+)?"
    r"(?:yo\b|mis?\b|soy\b|tengo\b|vivo\b|trabajo\b|prefiero\b|necesito\b|nuestr[oa]s?\b|uso\b|me\s+(?:llamo|"
    r"gustan?)\b|no\s+(?:puedo|me|tengo|como|uso)\b|"
    r"para\s+(?:el\s+futuro|más\s+adelante|la\s+próxima)\b)",
    take_back=any_of(
        r"(?P<stop>(?:deja|deje)\s+de\s+[^,;.!?]+)|(?:olvida|olvídate\s+de|olvide|ignora|ignore|cancela|deja)\s+"
        r"(?:lo\s+del?\s+|lo\s+que\s+(?:te\s+)?dije\s+(?:sobre|de|acerca\s+de)\s+)?(?P<back>[^,;.!?]+)",
        r"ya\s+no\s+(?:hace\s+falta|es\s+necesario|necesitas|tienes\s+que|"
        r"hay\s+que)\s+(?:que\s+)?(?P<need>[^,;.!?]+)",
        r"ya\s+no\s+(?:quiero|prefiero|necesito|uso)\s+(?P<want>[^,;.!?]+)",
    ),
    asks=r"(?:qué|quién(?:es)?|cómo|cuándo|dónde|por qué|cuál(?:es)?|cuánt[oa]s?|puedes|podrías|puede|podría|debo|"
    r"debería|es posible|prefieres)\b",
    says=r"dice|dijo|dicen|piensa|cree|escribió|preguntó|si|él|ella",
)

_IT = (
    r"(?:rispond[ia](?:mi)?|usa|usi|utilizz[ai]|scriv[ia](?:mi)?|dammi|dai|indi(?:ca|chi)|includ[ia]|aggiung[ia]|"
    r"spieg(?:a|hi)(?:mi)?|"
    r"mostr[ai](?:mi)?|parl[ai](?:mi)?|cit[ai]|evit[ai]|mantieni|inizia|comincia|termina|formatta|presenta|proponi|"
    r"chiamami|fai|"
    r"faccia|dimmi|dica|traduci|limita(?:ti)?|controlla|verifica|arrotonda|converti|trattami|ricordami|mett[ia]|"
    r"suggerisci|consiglia|elenca)"
)
_ITALIAN = language(
    "it",
    fillers=r"per favore|per piacere|e|ma|quindi|allora|ok|va bene|ciao|grazie|a proposito|inoltre|anche|nota|"
    r"importante|"
    r"un'altra cosa|in generale|sì",
    links=r"e|ma|quindi|perché|poiché|siccome|anche se|che|dato che",
    leads=r"d'ora in (?:poi|avanti)|da (?:ora|adesso|oggi) in (?:poi|avanti)|in futuro",
    cue=r"sempre|mai|solo|soltanto|esclusivamente|unicamente|resto|risposte|quando|volta|ogniqualvolta|se|"
    r"prefer\w+|più|chiam\w+|nome|"
    r"vegetarian\w|vegan\w|allergic\w|celiac\w|diabetic\w|intollerante|pronomi|compleanno|lingua|madrelingua|fuso|"
    r"ricord\w+|"
    r"tieni|tenga|dimentic\w+|nota|annota|smetti\w*|smetta|lascia|ignora|annulla",
    always=any_of(
        rf"{_IT}\s+(?:\w+\s+){{0,2}}?sempre\b|non\s+(?:mi\s+)?\w+(?:are|ere|ire)\s+mai\b|(?:rispondi|scrivi|"
        rf"parla)(?:mi)?\s+(?:solo|soltanto|esclusivamente|unicamente)\s+in\b",
        r"(?:devi|dovresti|deve)\s+sempre\b|non\s+devi\s+mai\b|(?:voglio|vorrei)\s+che\b[^.;]{0,40}\b(?:sempre|"
        r"mai)\b|sempre\s+(?:rispondere|usare|scrivere|indicare|includere|citare)\b",
    ),
    lasting=any_of(
        r"\bper il resto (?:della|di questa) (?:conversazione|chat)|\bin tutte le (?:tue |sue )?risposte\b|"
        r"\bper tutte le (?:mie|tue) (?:domande|risposte)\b",
        r"\b(?:quando|ogni volta che|se|ogniqualvolta)\s+(?:ti\s+|le\s+)?(?:chied[oa]|domando|parlo|menziono|"
        r"scrivo|dico|mando)\b",
    ),
    directs=any_of(
        rf"{_IT}\b|non\s+(?:mi\s+)?\w+(?:are|ere|ire)\b|(?:devi|dovresti|deve|dovrebbe)\b|(?:voglio|vorrei)\s+che\b",
    ),
    polite=r"(?:puoi|potresti|può|potrebbe)\s+(?:per favore\s+)?(?:sempre|d'ora in poi)\b|(?:puoi|"
    r"potresti)\s+\w+(?:are|ere|ire)(?:mi)?\s+sempre\b",
    prefer=any_of(
        r"(?:io\s+)?(?:di solito\s+|generalmente\s+|personalmente\s+)?preferisco\b(?!\s+non\s+dire)|"
        r"la\s+mia\s+preferenza\s+è\b",
        r"mi\s+piac(?:e|ciono)\s+(?:molto\s+)?di\s+più\b|mi\s+piac(?:e|"
        r"ciono)\s+[^,;.?!]{2,50}?\s(?:di\s+)?più\s+(?:di|che|del|della|dei|delle)\b",
        r"(?:il\s+mio|la\s+mia|i\s+miei|le\s+mie)\s+[^,;.?!]{2,30}?\spreferit[oaie]\s+(?:è|sono)(?!\w)|"
        r"non\s+mi\s+piace\s+(?:quando|che\s+tu)\b",
    ),
    identity=any_of(
        rf"mi\s+chiamo\s+{NAME}|il\s+mio\s+nome\s+è\s+{NAME}|(?:puoi\s+)?chiama(?:mi|rmi)\s+{NAME}",
        r"(?:io\s+)?sono\s+(?:vegetarian[oa]|vegan[oa]|allergic[oa]\s+a\w*|celiac[oa]|diabetic[oa]|intollerante)\b",
        r"i\s+miei\s+pronomi\s+sono\b|il\s+mio\s+(?:compleanno|fuso\s+orario)\s+è(?!\w)|"
        r"la\s+mia\s+(?:lingua\s+madre|madrelingua)\s+è(?!\w)",
    ),
    remember=r"(?:ricorda(?:ti)?|ricordi|tieni\s+(?:presente|a\s+mente)|tenga\s+presente|non\s+dimenticar(?:e|ti)|"
    r"prendi\s+nota|annota)\s+(?:che\s+|di\s+)?"
    r"(?:io\b|(?:il|la|i|le)\s+mi\w+\b|sono\b|ho\b|vivo\b|lavoro\b|preferisco\b|uso\b|non\s+(?:posso|mangio|uso|"
    r"mi)\b|per\s+(?:il\s+futuro|la\s+prossima)\b)",
    take_back=any_of(
        r"(?P<stop>(?:smetti(?:la)?|smetta)\s+di\s+[^,;.!?]+)|(?:lascia\s+perdere|dimentica|dimenticati\s+d\w+|"
        r"ignora|annulla)\s+"
        r"(?:quello\s+che\s+ho\s+detto\s+\w+\s+)?(?P<back>[^,;.!?]+)",
        r"non\s+(?:serve|c'è\s+bisogno|occorre|devi|è\s+necessario)\s+più\s+(?:che\s+|di\s+)?(?P<need>[^,;.!?]+)|"
        r"non\s+(?:voglio|preferisco|uso)\s+più\s+(?P<want>[^,;.!?]+)",
    ),
    asks=r"(?:che|cosa|chi|come|quando(?!\s+(?:ti\s+|le\s+)?(?:chied|parl|scriv|dico|domand|menz|mand))|dove|"
    r"perché|qual(?:e|i)?|quant[oaie]|puoi|potresti|può|potrebbe|devo|"
    r"dovrei|preferisci|è possibile)(?!\w)",
    says=r"dice|detto|disse|pensa|scrive|chiesto|lui|se",
)

_PT = (
    r"(?:respond[ae](?:-me)?|us[ae]|utiliz[ae]|escrev[ae]|dê|dá|indique|indica|inclu[ai]|adicion[ae]|acrescent[ae]|"
    r"explique|explica|"
    r"mostr[ae]|fal[ae]|cit[ae]|evit[ae]|mantenha|mantém|comece|começa|termin[ae]|format[ae]|apresent[ae]|sugira|"
    r"sugere|recomend[ae]|"
    r"chame-me|chama-me|me\s+cham[ae]|faça|faz|diga|diz|traduza|traduz|limit[ae]|verifique|arredond[ae]|"
    r"convert[ae]|trat[ae]-me|"
    r"me\s+trat[ae]|me\s+lembr[ae]|coloque|coloca|list[ae]|inform[ae])"
)
_PORTUGUESE = language(
    "pt",
    fillers=r"por favor|e|mas|então|ok|certo|olá|oi|obrigad[oa]|aliás|a propósito|também|além disso|nota|"
    r"importante|mais uma coisa|em geral|sim",
    links=r"e|mas|porque|já que|pois|como|embora|que|então",
    leads=r"a partir de (?:agora|hoje)|de (?:agora|hoje) em diante|daqui (?:em diante|para a frente|pra frente)|"
    r"doravante|no futuro",
    cue=r"sempre|nunca|jamais|respostas|conversa|quando|vez|se|prefir\w+|prefer\w+|favorit\w|preferid\w|mais|chamo|"
    r"chame|chama|nome|chamar|"
    r"vegetarian\w|vegan\w|alérgic\w|celíac\w|diabétic\w|intolerante|pronomes|aniversário|língua|fuso|lembre|"
    r"lembra|mente|esqueç\w+|"
    r"esquece|anote|nota|pare|ignore|cancele|precisa",
    always=any_of(
        rf"(?:sempre|nunca|jamais)\s+(?:me\s+)?(?:{_PT}|respondas|uses|escrevas|responder|usar|utilizar|incluir|"
        rf"escrever|dar|citar)(?!\w)|{_PT}\s+(?:\w+\s+){{0,2}}?sempre\b",
        r"(?:você\s+)?(?:deve|tem\s+que|precisa|deveria)\s+(?:sempre|nunca)\b|quero\s+que\s+(?:você\s+)?(?:sempre|"
        r"nunca)\b|(?:responda|escreva|fale)\s+(?:apenas|somente|só)\s+em\b",
    ),
    lasting=any_of(
        r"\b(?:pelo|até o fim|até ao fim)(?: resto)? d(?:a|esta) conversa|\bem todas as (?:suas|tuas) respostas\b|"
        r"\bpara todas as (?:minhas|suas) (?:perguntas|respostas)\b",
        r"\b(?:quando|sempre que|toda vez que|cada vez que|se)\s+(?:eu\s+)?(?:te\s+|lhe\s+)?(?:pergunt(?:ar|o)|"
        r"pedir|peço|mencionar|falar|escrever|disser|enviar|mandar)\b",
    ),
    directs=any_of(
        rf"{_PT}(?!\w)|não\s+(?:me\s+)?(?:{_PT}|uses|escrevas|respondas)(?!\w)|(?:você\s+)?(?:deve|tem\s+que|"
        rf"precisa|deveria)\b|(?:quero|gostaria)\s+que\b",
    ),
    polite=r"(?:você\s+)?(?:pode|poderia)\s+(?:por favor\s+)?(?:sempre|a partir de agora)\b",
    prefer=any_of(
        r"(?:eu\s+)?(?:normalmente\s+|geralmente\s+|pessoalmente\s+|sempre\s+)?prefiro\b(?!\s+não\s+dizer)|"
        r"(?:a\s+)?minha\s+preferência\s+é(?!\w)",
        r"(?:eu\s+)?gosto\s+mais\s+d[eoa]s?\b|(?:eu\s+)?gosto\s+[^,;.?!]{2,50}?\smais\s+(?:do\s+)?que\b|(?:o\s+|"
        r"a\s+)?(?:meu|minha)s?\s+[^,;.?!]{2,30}?\s(?:favorit|preferid)[oa]s?\s+(?:é|são)(?!\w)",
        r"não\s+gosto\s+que\s+(?:você|tu)\b",
    ),
    identity=any_of(
        rf"(?:eu\s+)?me\s+chamo\s+{NAME}|chamo-me\s+{NAME}|(?:o\s+)?meu\s+nome\s+é\s+{NAME}|"
        rf"(?:pode\s+)?me\s+cham(?:ar|e|a)\s+(?:de\s+)?{NAME}|chame-me\s+(?:de\s+)?{NAME}",
        r"(?:eu\s+)?sou\s+(?:vegetarian[oa]|vegan[oa]|alérgic[oa]\s+a\w*|celíac[oa]|diabétic[oa]|intolerante)\b",
        r"(?:os\s+)?meus\s+pronomes\s+são\b|(?:o\s+)?meu\s+(?:aniversário|fuso\s+horário)\s+é(?!\w)|"
        r"(?:a\s+)?minha\s+língua\s+materna\s+é(?!\w)",
    ),
    remember=r"(?:lembre(?:-se)?|lembra-te|tenha\s+em\s+mente|não\s+(?:se\s+)?esqueça|não\s+te\s+esqueças|anote|"
    r"tome\s+nota)\s+(?:de\s+)?(?:que\s+)?"
    r"(?:eu\b|(?:o\s+|a\s+|os\s+|as\s+)?(?:meu|minha)s?\b|sou\b|tenho\b|moro\b|trabalho\b|prefiro\b|uso\b|"
    r"noss[oa]s?\b|não\s+(?:posso|como|uso)\b|para\s+(?:o\s+futuro|depois|a\s+próxima)\b)",
    take_back=any_of(
        r"(?P<stop>(?:pare|para)\s+de\s+[^,;.!?]+)|(?:esqueça|esquece|ignore|ignora|cancele|"
        r"deixa\s+pra\s+lá)\s+(?:o\s+que\s+eu\s+(?:disse|falei)\s+(?:sobre|de)\s+)?(?P<back>[^,;.!?]+)",
        r"não\s+(?:precisa|é\s+preciso|é\s+necessário)\s+mais\s+(?P<need>[^,;.!?]+)|(?:eu\s+)?não\s+(?:quero|"
        r"prefiro|uso|preciso)\s+mais\s+(?P<want>[^,;.!?]+)",
    ),
    asks=r"(?:o que|quem|como|quando(?!\s+(?:eu\b|te\b|lhe\b|\w+r\b))|onde|por que|qual|quais|quant[oa]s?|"
    r"você pode|pode|poderia|posso|devo|deveria|prefere)\b",
    says=r"diz|disse|acha|escreveu|perguntou|ele|ela|se",
)

ROMANCE = (_FRENCH, _SPANISH, _ITALIAN, _PORTUGUESE)
