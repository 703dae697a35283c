"""Facts said in eleven languages among small talk, and questions about them. Data only.

For each language: what is said, the question that asks for it later in other words, and the value that an answer needs;
then small talk, in which `{n}` is a number that goes up.
"""

from __future__ import annotations

from typing import NamedTuple


class Language(NamedTuple):
    """A language's facts as (said, question, value), the reply to each fact, and its small talk."""

    name: str
    facts: tuple[tuple[str, str, str], ...]
    noted: str
    talk: tuple[tuple[str, str], ...]


LANGUAGES = (
    Language(
        "English",
        (
            ("My passport number is XK4471902.", "What is the number of my passport?", "XK4471902"),
            ("Maria is allergic to hazelnuts.", "Which allergies does Maria have?", "hazelnuts"),
            ("We booked the Hotel Aurora in Bergen.", "What hotel are we booking in Bergen?", "Aurora"),
            ("The backup script is /opt/tools/nightly.sh.", "Where is the script for backups?", "nightly.sh"),
            ("My landlord's phone is 555-0172.", "How can I phone the landlord?", "555-0172"),
            ("The meeting with the auditors is on May 3rd.", "When do we meet the auditors?", "May 3rd"),
        ),
        "Noted.",
        (
            ("I went for walk number {n} along the river today.", "Walking {n} times keeps you healthy!"),
            ("Can you suggest film {n} for tonight?", "Film {n} could be a quiet comedy."),
            ("The weather was grey again, day {n} of rain.", "After {n} days of rain the sun will come."),
            ("I read chapter {n} of my novel.", "Chapter {n} sounds exciting."),
            ("My train was {n} minutes late.", "A delay of {n} minutes is annoying."),
            ("I cooked soup with {n} carrots.", "Soup with {n} carrots is sweet."),
            ("The cat slept for {n} hours.", "Cats sleep {n} hours and more."),
            ("I wrote {n} emails this morning.", "That is a lot of emails: {n}."),
        ),
    ),
    Language(
        "German",
        (
            (
                "Meine Ausweisnummer lautet L01X00T47.",
                "Welche Ausweisnummer habe ich?",
                "L01X00T47",
            ),
            (
                "Der Schlüssel zum Keller hängt hinter der Garderobe.",
                "Wo finde ich den Schlüssel vom Keller?",
                "Garderobe",
            ),
            (
                "Frau Brückner zahlt 1.250 Euro Miete.",
                "Wie hoch ist die Miete von Frau Brückner?",
                "1.250",
            ),
            ("Unser Zug nach Köln fährt von Gleis 14.", "Von welchem Gleis fährt der Zug nach Köln?", "14"),
            (
                "Opas Geburtstag feiern wir am 12. August in der Linde.",
                "Wo feiern wir Opas Geburtstag?",
                "Linde",
            ),
            (
                "Das Passwort des Routers ist Sonnenblume77.",
                "Welches Passwort hat der Router?",
                "Sonnenblume77",
            ),
        ),
        "Ist notiert.",
        (
            ("Ich war heute zum {n}. Mal im Park spazieren.", "Spaziergang {n} war sicher schön."),
            ("Kannst du Film {n} für heute Abend empfehlen?", "Film {n} wäre eine ruhige Komödie."),
            ("Das Wetter ist grau, Tag {n} mit Regen.", "Nach {n} Tagen Regen kommt Sonne."),
            ("Ich habe Kapitel {n} meines Romans gelesen.", "Kapitel {n} klingt spannend."),
            ("Die Bahn hatte {n} Minuten Verspätung.", "Eine Verspätung von {n} Minuten nervt."),
            ("Ich habe Suppe mit {n} Karotten gekocht.", "Suppe mit {n} Karotten ist süß."),
            ("Die Katze hat {n} Stunden geschlafen.", "Katzen schlafen {n} Stunden und mehr."),
            ("Ich habe {n} Mails geschrieben.", "Das sind viele Mails: {n}."),
        ),
    ),
    Language(
        "French",
        (
            ("Mon numéro de passeport est 19CV55012.", "Quel est le numéro de mon passeport ?", "19CV55012"),
            ("Hélène ne mange pas de crevettes.", "Que ne mange pas Hélène ?", "crevettes"),
            ("Le code de l'immeuble est 48B7.", "Quel code ouvre l'immeuble ?", "48B7"),
            (
                "Nous avons réservé au restaurant Le Canard Bleu.",
                "Quel restaurant avons-nous réservé ?",
                "Canard Bleu",
            ),
            ("Le garagiste s'appelle Monsieur Lefèvre.", "Comment s'appelle le garagiste ?", "Lefèvre"),
            (
                "Les clés de la cave sont dans le tiroir rouge.",
                "Où sont les clés de la cave ?",
                "tiroir rouge",
            ),
        ),
        "C'est noté.",
        (
            ("J'ai fait ma promenade numéro {n} au bord du fleuve.", "Se promener {n} fois fait du bien !"),
            ("Peux-tu proposer le film {n} pour ce soir ?", "Le film {n} serait une comédie douce."),
            ("Le temps est gris, jour {n} de pluie.", "Après {n} jours de pluie, le soleil revient."),
            ("J'ai lu le chapitre {n} de mon roman.", "Le chapitre {n} semble passionnant."),
            ("Mon train avait {n} minutes de retard.", "Un retard de {n} minutes agace."),
            ("J'ai cuisiné une soupe avec {n} carottes.", "Une soupe à {n} carottes est sucrée."),
            ("Le chat a dormi {n} heures.", "Les chats dorment {n} heures et plus."),
            ("J'ai écrit {n} courriels ce matin.", "Cela fait beaucoup : {n}."),
        ),
    ),
    Language(
        "Spanish",
        (
            ("Mi número de pasaporte es PAB334421.", "¿Cuál es el número del pasaporte?", "PAB334421"),
            ("La abuela toma las pastillas a las ocho.", "¿A qué hora toma la abuela las pastillas?", "ocho"),
            ("El vuelo a Bogotá sale de la puerta C22.", "¿De qué puerta sale el vuelo a Bogotá?", "C22"),
            ("El dentista de Íñigo es la doctora Salgado.", "¿Quién es el dentista de Iñigo?", "Salgado"),
            ("La contraseña del wifi es GiraLuna9.", "¿Qué contraseña tiene el wifi?", "GiraLuna9"),
            ("El alquiler cuesta 870 euros.", "¿Cuánto cuesta el alquiler?", "870"),
        ),
        "Anotado.",
        (
            ("Hoy di mi paseo número {n} por el río.", "¡Pasear {n} veces sienta bien!"),
            (
                "¿Puedes proponer la película {n} para esta noche?",
                "La película {n} sería una comedia tranquila.",
            ),
            ("El tiempo sigue gris, día {n} de lluvia.", "Tras {n} días de lluvia saldrá el sol."),
            ("Leí el capítulo {n} de mi novela.", "El capítulo {n} parece emocionante."),
            ("Mi tren llegó {n} minutos tarde.", "Un retraso de {n} minutos molesta."),
            ("Cociné sopa con {n} zanahorias.", "La sopa con {n} zanahorias es dulce."),
            ("El gato durmió {n} horas.", "Los gatos duermen {n} horas y más."),
            ("Escribí {n} correos esta mañana.", "Son muchos correos: {n}."),
        ),
    ),
    Language(
        "Portuguese",
        (
            ("O número do meu passaporte é FZ118820.", "Qual é o número do passaporte?", "FZ118820"),
            ("O João é alérgico a camarão.", "A que é alérgico o João?", "camarão"),
            (
                "A reunião com a contabilidade é na sala Tejo.",
                "Em que sala é a reunião com a contabilidade?",
                "Tejo",
            ),
            ("O código do portão é 7741.", "Que código abre o portão?", "7741"),
            ("A bicicleta está na garagem da tia Amélia.", "Onde está a bicicleta?", "tia Amélia"),
            ("O mecânico cobra 320 euros pelos travões.", "Quanto cobra o mecânico pelos travões?", "320"),
        ),
        "Anotado.",
        (
            ("Hoje fiz a caminhada número {n} junto ao rio.", "Caminhar {n} vezes faz bem!"),
            ("Podes sugerir o filme {n} para hoje à noite?", "O filme {n} seria uma comédia calma."),
            ("O tempo está cinzento, dia {n} de chuva.", "Depois de {n} dias de chuva vem o sol."),
            ("Li o capítulo {n} do meu romance.", "O capítulo {n} parece emocionante."),
            ("O comboio atrasou {n} minutos.", "Um atraso de {n} minutos aborrece."),
            ("Cozinhei sopa com {n} cenouras.", "Sopa com {n} cenouras é doce."),
            ("O gato dormiu {n} horas.", "Os gatos dormem {n} horas e mais."),
            ("Escrevi {n} emails esta manhã.", "São muitos emails: {n}."),
        ),
    ),
    Language(
        "Russian",
        (
            ("Номер моего паспорта 4510 227788.", "Какой у меня номер паспорта?", "227788"),
            ("Бабушка принимает таблетки в восемь утра.", "Когда бабушка должна принять таблетку?", "восемь"),
            ("Поезд в Казань отходит с шестого пути.", "С какого пути уходит поезд до Казани?", "шестого"),
            ("Ключи от дачи лежат у соседа Ёжикова.", "Где ключ от дачи?", "Ёжикова"),
            ("Пароль от почты: Подсолнух12.", "Какой пароль к почте?", "Подсолнух12"),
            ("Ремонт машины стоит 45000 рублей.", "Сколько стоил ремонт машин?", "45000"),
        ),
        "Записал.",
        (
            ("Сегодня была прогулка номер {n} вдоль реки.", "Гулять {n} раз полезно!"),
            ("Посоветуй фильм {n} на вечер.", "Фильм {n} будет тихой комедией."),
            ("Погода серая, день дождя {n}.", "После {n} дней дождя выйдет солнце."),
            ("Я прочитал главу {n} романа.", "Глава {n} звучит интересно."),
            ("Электричка опоздала на {n} минут.", "Опоздание на {n} минут раздражает."),
            ("Я сварил суп из {n} морковок.", "Суп из {n} морковок сладкий."),
            ("Кот спал {n} часов.", "Коты спят {n} часов и больше."),
            ("Я написал {n} писем утром.", "Это много писем: {n}."),
        ),
    ),
    Language(
        "Arabic",
        (
            ("رقم جواز سفري هو A8842190.", "ما هو رقم جواز السفر؟", "A8842190"),
            ("ليلى لا تأكل الفول السوداني.", "ماذا لا تأكل ليلى؟", "الفول"),
            ("مفتاح المخزن عند الحارس سمير.", "أين المفتاح الخاص بالمخزن؟", "سمير"),
            ("رحلة القاهرة تغادر من البوابة 22.", "من أي بوابة تغادر رحلة القاهرة؟", "22"),
            ("كلمة مرور الشبكة هي زيتون55.", "ما كلمة المرور للشبكة؟", "زيتون55"),
            ("إيجار الشقة 900 دينار.", "كم إيجار الشقة؟", "900"),
        ),
        "تم التسجيل.",
        (
            ("اليوم مشيت المرة {n} قرب النهر.", "المشي {n} مرات مفيد!"),
            ("هل تقترح الفيلم {n} لهذا المساء؟", "الفيلم {n} كوميديا هادئة."),
            ("الطقس رمادي واليوم {n} من المطر.", "بعد {n} أيام من المطر تأتي الشمس."),
            ("قرأت الفصل {n} من الرواية.", "الفصل {n} يبدو مثيرا."),
            ("تأخر القطار {n} دقيقة.", "تأخير {n} دقيقة مزعج."),
            ("طبخت حساء مع {n} جزرات.", "الحساء مع {n} جزرات حلو."),
            ("نامت القطة {n} ساعات.", "القطط تنام {n} ساعات وأكثر."),
            ("كتبت {n} رسائل هذا الصباح.", "هذا كثير: {n}."),
        ),
    ),
    Language(
        "Hindi",
        (
            ("मेरा पासपोर्ट नंबर Z5520187 है।", "मेरे पासपोर्ट का नंबर क्या है?", "Z5520187"),
            ("दादी सुबह आठ बजे दवा लेती हैं।", "दादी दवा कब लेती हैं?", "आठ"),
            ("गोदाम की चाबी रमेश के पास है।", "गोदाम की चाबी किसके पास है?", "रमेश"),
            ("दिल्ली की ट्रेन प्लेटफार्म 9 से जाती है।", "दिल्ली की ट्रेन किस प्लेटफार्म से जाती है?", "9"),
            ("वाईफाई का पासवर्ड सूरजमुखी42 है।", "वाईफाई का पासवर्ड क्या है?", "सूरजमुखी42"),
            ("मकान का किराया 15000 रुपये है।", "मकान का किराया कितना है?", "15000"),
        ),
        "लिख लिया।",
        (
            ("आज नदी के किनारे सैर {n} की।", "सैर {n} बार अच्छी होती है!"),
            ("आज रात के लिए फिल्म {n} बताओ।", "फिल्म {n} एक हल्की कॉमेडी होगी।"),
            ("मौसम धूसर है, बारिश का दिन {n}।", "बारिश के {n} दिन बाद धूप आएगी।"),
            ("मैंने उपन्यास का अध्याय {n} पढ़ा।", "अध्याय {n} रोचक लगता है।"),
            ("बस {n} मिनट देर से आई।", "{n} मिनट की देरी बुरी है।"),
            ("मैंने {n} गाजर का सूप बनाया।", "{n} गाजर का सूप मीठा होता है।"),
            ("बिल्ली {n} घंटे सोई।", "बिल्लियाँ {n} घंटे सोती हैं।"),
            ("मैंने सुबह {n} ईमेल लिखे।", "यह बहुत है: {n}।"),
        ),
    ),
    Language(
        "Chinese",
        (
            ("我的护照号码是E88120345。", "我的护照号是多少?", "E88120345"),
            ("小梅对花生过敏。", "小梅对什么过敏?", "花生"),
            ("去上海的火车在12号站台。", "上海的火车在哪个站台?", "12"),
            ("仓库的钥匙在王师傅那里。", "谁有仓库钥匙?", "王师傅"),
            ("无线网密码是向日葵99。", "无线网的密码是什么?", "向日葵99"),
            ("牙医预约在五月十二日。", "牙医的预约是哪天?", "五月十二日"),
        ),
        "记下了。",
        (
            ("今天第{n}次去河边散步。", "散步{n}次对身体好!"),
            ("能推荐今晚的第{n}部电影吗?", "第{n}部电影是安静的喜剧。"),
            ("天气阴沉,下雨第{n}天。", "下了{n}天雨以后会出太阳。"),
            ("我读了小说的第{n}章。", "第{n}章听起来很精彩。"),
            ("公交车晚了{n}分钟。", "晚{n}分钟真烦人。"),
            ("我用{n}根胡萝卜煮了汤。", "{n}根胡萝卜的汤很甜。"),
            ("猫睡了{n}个小时。", "猫会睡{n}个小时以上。"),
            ("今早我写了{n}封邮件。", "{n}封邮件真多。"),
        ),
    ),
    Language(
        "Japanese",
        (
            ("私のパスポート番号はTK9920341です。", "パスポートの番号は何ですか?", "TK9920341"),
            ("花子さんはエビのアレルギーがあります。", "花子さんのアレルギーは何ですか?", "エビ"),
            ("京都行きの電車は7番線から出ます。", "京都行きの電車は何番線ですか?", "7番線"),
            ("倉庫の鍵は山田さんが持っています。", "倉庫の鍵は誰が持っていますか?", "山田"),
            ("無線のパスワードはひまわり88です。", "無線のパスワードを教えて。", "ひまわり88"),
            ("歯医者の予約は5月12日です。", "歯医者の予約はいつですか?", "5月12日"),
        ),
        "メモしました。",
        (
            ("今日は川沿いを{n}回目の散歩をした。", "{n}回の散歩は体にいい!"),
            ("今夜の映画{n}を勧めてくれる?", "映画{n}は静かな喜劇だよ。"),
            ("天気は曇り、雨の{n}日目。", "{n}日の雨のあとは晴れるよ。"),
            ("小説の第{n}章を読んだ。", "第{n}章は面白そうだね。"),
            ("バスが{n}分遅れた。", "{n}分の遅れは困るね。"),
            ("人参{n}本でスープを作った。", "人参{n}本のスープは甘い。"),
            ("猫が{n}時間寝た。", "猫は{n}時間以上寝る。"),
            ("今朝メールを{n}通書いた。", "{n}通は多いね。"),
        ),
    ),
    Language(
        "Korean",
        (
            ("제 여권 번호는 M70215533입니다.", "여권 번호가 뭐였죠?", "M70215533"),
            ("민지는 땅콩 알레르기가 있어요.", "민지의 알레르기는 무엇인가요?", "땅콩"),
            ("부산행 기차는 11번 승강장에서 떠나요.", "부산행 기차는 어느 승강장인가요?", "11번"),
            ("창고 열쇠는 박 과장님이 가지고 있어요.", "창고 열쇠를 누가 가지고 있나요?", "박 과장"),
            ("와이파이 비밀번호는 해바라기66이에요.", "와이파이의 비밀번호 알려줘.", "해바라기66"),
            ("치과 예약은 5월 12일이에요.", "치과 예약이 언제죠?", "5월 12일"),
        ),
        "적어 두었어요.",
        (
            ("오늘 강가에서 {n}번째 산책을 했어요.", "산책 {n}번은 건강에 좋아요!"),
            ("오늘 밤 영화 {n} 추천해 줄래요?", "영화 {n}은 조용한 코미디예요."),
            ("날씨가 흐려요, 비 온 지 {n}일째.", "비가 {n}일 온 뒤에는 해가 나요."),
            ("소설 {n}장을 읽었어요.", "{n}장은 흥미롭네요."),
            ("버스가 {n}분 늦었어요.", "{n}분 지연은 짜증나죠."),
            ("당근 {n}개로 수프를 끓였어요.", "당근 {n}개 수프는 달아요."),
            ("고양이가 {n}시간 잤어요.", "고양이는 {n}시간 넘게 자요."),
            ("오늘 아침 메일을 {n}통 썼어요.", "{n}통이면 많네요."),
        ),
    ),
)
