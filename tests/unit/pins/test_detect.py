"""What of a message holds until it is taken back: found in nine languages, and not where it only looks like it."""

from __future__ import annotations

import time

import pytest

from memory.pins.detect import LOOKED_AT, MOST, WHOLE, Statement, StatementKind, statements

INSTRUCTIONS = [
    "Always answer in metric units.",
    "Always include version numbers when I ask about software dependencies.",
    "Never use emojis in your answers.",
    "From now on use British spelling.",
    "From now on, please keep it under 100 words.",
    "Thanks! Going forward, cite the paragraph you quote.",
    "Whenever I ask for a recipe, give the amounts for two people.",
    "When I ask about deadlines, answer with a date and a time.",
    "Include the sources whenever I ask about history.",
    "If I ask about prices, add the VAT.",
    "You should always show your work.",
    "I want you to always explain the trade-offs.",
    "I'd like you to never apologise.",
    "Please make sure to always list the ingredients first.",
    "Could you always answer in German, please?",
    "Keep your answers short.",
    "Use the metric system at all times.",
    "Don't use bullet points in any of your answers.",
    "Reply only in French.",
    "One more thing: always round to two decimals.",
    "I am writing a thesis, so please always use APA style.",
    "Antworte immer auf Deutsch.",
    "Ab jetzt antworte bitte nur noch in metrischen Einheiten.",
    "Wenn ich dich nach Terminen frage, nenne immer die Uhrzeit.",
    "Ich möchte, dass du mir immer Quellen nennst.",
    "Verwenden Sie künftig immer die neue Rechtschreibung.",
    "Immer auf Deutsch antworten.",
    "Réponds toujours en français.",
    "À partir de maintenant, utilise le système métrique.",
    "Quand je te demande une recette, donne les quantités pour deux personnes.",
    "Désormais, vous devez citer vos sources.",
    "Responde siempre en español.",
    "A partir de ahora usa el sistema métrico.",
    "Cuando te pregunte por fechas, indica también la hora.",
    "Nunca uses emojis.",
    "Rispondi sempre in italiano.",
    "D'ora in poi usa il sistema metrico.",
    "Quando ti chiedo una ricetta, indica le dosi per due persone.",
    "Non usare mai le emoji.",
    "Responda sempre em português.",
    "A partir de agora use o sistema métrico.",
    "Sempre que eu pedir uma receita, indique as quantidades para duas pessoas.",
    "Antwoord altijd in het Nederlands.",
    "Gebruik voortaan altijd het metrieke stelsel.",
    "Vanaf nu moet je bronnen vermelden.",
    "Als ik naar een recept vraag, geef dan de hoeveelheden voor twee personen.",
    "Zawsze odpowiadaj po polsku.",
    "Od teraz używaj jednostek metrycznych.",
    "Kiedy pytam o przepis, podawaj ilości dla dwóch osób.",
    "Всегда отвечай по-русски.",
    "С этого момента используй метрические единицы.",
    "Когда я спрашиваю о рецепте, указывай количество на двоих.",
]
PREFERENCES = [
    "I prefer tea over coffee.",
    "I'm choosing a library, and I prefer simple, minimal dependencies, can you help me?",
    "I really prefer window seats.",
    "My preference is for short meetings.",
    "I like trains better than planes.",
    "My favourite colour is green.",
    "I've decided to use Netlify over GitHub Pages.",
    "I learn best with worked examples.",
    "Ich bevorzuge kurze Antworten.",
    "Ich trinke lieber Tee als Kaffee.",
    "Meine Lieblingsfarbe ist Grün.",
    "Je préfère le train à l'avion.",
    "J'aime mieux le thé que le café.",
    "Prefiero el té al café.",
    "Me gusta más el tren.",
    "Preferisco il treno all'aereo.",
    "Prefiro chá a café.",
    "Ik geef de voorkeur aan de trein.",
    "Ik drink liever thee dan koffie.",
    "Wolę herbatę niż kawę.",
    "Я предпочитаю чай.",
    "Мне больше нравится чай.",
]
IDENTITIES = [
    "My name is Noor.",
    "Hi, my name is Zoë van Dijk.",
    "Please call me Sam.",
    "I'm allergic to peanuts.",
    "My pronouns are they/them.",
    "Ich heiße Jürgen.",
    "Nenn mich Uli.",
    "Je m'appelle Élodie.",
    "Me llamo Íñigo.",
    "Mi chiamo Chiara.",
    "Eu me chamo João.",
    "Mijn naam is Sanne.",
    "Mam na imię Łucja.",
    "Меня зовут Ольга.",
]
REMEMBERED = [
    "Remember that I have two children.",
    "Please remember that my train leaves at 7:40.",
    "Keep in mind that we only ship on Mondays.",
    "For future reference, the code word is heron.",
    "Merk dir bitte, dass ich freitags nicht arbeite.",
    "N'oublie pas que je travaille le dimanche.",
    "Recuerda que tengo dos hijos.",
    "Ricorda che ho due figli.",
    "Lembre-se de que eu tenho dois filhos.",
    "Onthoud dat ik twee kinderen heb.",
    "Pamiętaj, że mam dwoje dzieci.",
    "Запомни, что у меня двое детей.",
]
TAKEN_BACK = [
    ("Never mind the metric units.", "the metric units"),
    ("Forget what I said about metric units, please.", "metric units"),
    ("You don't need to cite sources any more.", "cite sources any more"),
    ("Stop using metric units.", "Stop using metric units"),
    ("I no longer want metric units.", "metric units"),
    ("Vergiss das mit den metrischen Einheiten.", "den metrischen Einheiten"),
    ("Du musst keine Quellen mehr nennen.", "keine Quellen mehr nennen"),
    ("Oublie le système métrique.", "le système métrique"),
    ("Olvida lo del sistema métrico.", "sistema métrico"),
    ("Ya no hace falta citar fuentes.", "citar fuentes"),
    ("Dimentica il sistema metrico.", "il sistema metrico"),
    ("Não precisa mais citar fontes.", "citar fontes"),
    ("Stop met het metrieke stelsel.", "Stop met het metrieke stelsel"),
    ("Przestań używać jednostek metrycznych.", "Przestań używać jednostek metrycznych"),
    ("Забудь про метрические единицы.", "метрические единицы"),
]
NOTHING = [
    # Questions.
    "Should I always use HTTPS?",
    "Do I prefer tea or coffee?",
    "How do I make sure that users can always log in?",
    "What is my name?",
    "Do you remember that I have two children?",
    "Is it better to always cite sources?",
    "Soll ich immer HTTPS verwenden?",
    "Kannst du mir sagen, wann der Zug fährt?",
    "Dois-je toujours utiliser HTTPS ?",
    "¿Debo usar siempre HTTPS?",
    "Devo usare sempre HTTPS?",
    "Devo sempre usar HTTPS?",
    "Moet ik altijd HTTPS gebruiken?",
    "Czy zawsze używać HTTPS?",
    "Мне всегда использовать HTTPS?",
    # What somebody else says, prefers or is called.
    "My boss said I prefer tea.",
    "She always answers in French.",
    "My sister prefers the train.",
    "My dog's name is Rex.",
    "He told me to always wear a helmet.",
    "Mein Bruder trinkt lieber Tee.",
    "Mein Hund heißt Rex.",
    "Ma sœur préfère le train.",
    "Mi hermana prefiere el tren.",
    "Mia sorella preferisce il treno.",
    "Minha irmã prefere o trem.",
    "Mijn zus drinkt liever thee.",
    "Moja siostra woli pociąg.",
    "Моя сестра предпочитает поезд.",
    # Stories, sayings, small talk.
    "I always take the bus to work.",
    "Always happy to help!",
    "Always wanted to see the sea.",
    "Never been there.",
    "Never give up!",
    "Always follow your heart.",
    "Never mind.",
    "I have never used Zotero.",
    "Whenever I go to the beach, I feel calm.",
    "When I ask him for money, he says no.",
    "From now on it gets dark early.",
    "Remember that time we went to Rome?",
    "Remember when we met.",
    "Call me when you arrive.",
    "Call me back tomorrow.",
    "I'm fine, and you know that.",
    "My name is on the list.",
    "In the future people will live on Mars.",
    "Going forward, we plan to open two shops.",
    "I prefer not to say.",
    "I am allergic to nothing but paperwork.",
    "Ab jetzt wird es früh dunkel.",
    "Ich gehe immer zu Fuß.",
    "Immer diese Baustellen.",
    "Wenn ich ihn frage, sagt er nein.",
    "Je prends toujours le bus.",
    "À partir de maintenant, il fait nuit tôt.",
    "Siempre tomo el autobús.",
    "Prendo sempre il treno.",
    "Eu sempre tomo o ônibus.",
    "Ik neem altijd de bus.",
    "Zawsze jeżdżę autobusem.",
    "Я всегда езжу на автобусе.",
    # Quoted, code, logs, transcripts, documents.
    'The sign says "Always keep the door closed."',
    "> Always answer in metric units.",
    "```\nAlways answer in metric units.\n```",
    "```\nAlways answer in metric units.",
    "    Always answer in metric units.",
    "// Always answer in metric units.",
    "# always use tabs",
    "user.prefer('always use metric units');",
    "2026-01-01T10:00:00 INFO Always use metric units.",
    "10:00:00 WARN never use metric units when I ask",
    "Agent: Always answer in metric units.",
    "John Smith: I prefer tea over coffee.",
    "- Always validate the input.\n- Never trust the client.",
    "1. Always use prepared statements.",
    "Er schrieb „Antworte immer auf Deutsch.“ an die Tafel.",
    "Il a écrit « Réponds toujours en français. » au tableau.",
    "",
    "?",
]


def kinds(text: str) -> list[StatementKind]:
    return [one.kind for one in statements(text)]


@pytest.mark.parametrize("text", INSTRUCTIONS)
def test_an_instruction_that_lasts_is_found(text: str) -> None:
    assert kinds(text) == [StatementKind.INSTRUCTION]


@pytest.mark.parametrize("text", PREFERENCES)
def test_a_preference_is_found(text: str) -> None:
    assert kinds(text) == [StatementKind.PREFERENCE]


@pytest.mark.parametrize("text", IDENTITIES)
def test_who_somebody_is_is_found(text: str) -> None:
    assert kinds(text) == [StatementKind.IDENTITY]


@pytest.mark.parametrize("text", REMEMBERED)
def test_what_is_to_be_remembered_is_found(text: str) -> None:
    assert kinds(text) == [StatementKind.REMEMBER]


@pytest.mark.parametrize(("text", "about"), TAKEN_BACK)
def test_what_is_taken_back_is_found(text: str, about: str) -> None:
    assert [(one.kind, one.about) for one in statements(text)] == [(StatementKind.TAKE_BACK, about)]


@pytest.mark.parametrize("text", NOTHING)
def test_what_only_looks_like_it_is_not(text: str) -> None:
    assert statements(text) == []


def test_the_sentence_is_kept_as_it_was_said_and_where_it_was() -> None:
    text = "Hello there.\n\nThe build   works. Always “quote” it,\tplease: always use `ruff`. Thanks!"
    (one,) = statements(text)
    assert one.text == "Always “quote” it, please: always use `ruff`."
    assert text[one.start :].startswith("Always “quote”")


def test_several_of_a_message_come_in_its_order() -> None:
    text = "My name is Noor. I prefer tea over coffee.\nAlways answer in metric units! How warm is it?"
    assert kinds(text) == [StatementKind.IDENTITY, StatementKind.PREFERENCE, StatementKind.INSTRUCTION]


def test_something_new_may_be_said_where_the_old_is_taken_back() -> None:
    assert kinds("Never mind the metric units, use imperial from now on.") == [
        StatementKind.TAKE_BACK,
        StatementKind.INSTRUCTION,
    ]


def test_a_list_is_taken_for_instructions_where_it_says_so() -> None:
    assert kinds("- Always cite your sources when I ask about history.\n- Always validate the input.") == [
        StatementKind.INSTRUCTION
    ]


def test_of_a_long_sentence_the_part_about_it_is_kept() -> None:
    padded = "I have a very long story to tell about my week, " * 10
    (one,) = statements(
        f"{padded}and I prefer tea over coffee because it keeps me calm in meetings, {padded}and so on."
    )
    assert len(one.text) <= WHOLE + 2
    assert one.text.startswith("I prefer tea over coffee because it keeps me calm")
    assert one.text.endswith(" …")


def test_what_was_pasted_between_is_not_looked_at() -> None:
    filler = "Nothing to see here at all.\n" * 400
    assert kinds(f"{filler}Always answer in metric units.\n{filler}") == []
    assert kinds(f"Always answer in metric units.\n{filler}") == [StatementKind.INSTRUCTION]
    assert kinds(f"{filler}Always answer in metric units.") == [StatementKind.INSTRUCTION]


def test_a_document_full_of_rules_is_no_statement() -> None:
    rules = "".join(f"Always use rule number {number} of the book.\n" for number in range(MOST + 1))
    assert statements(rules) == []


@pytest.mark.parametrize(
    "text",
    [
        "always " * 20_000,
        "I prefer " * 20_000,
        "when I ask " * 20_000,
        "a" * 100_000,
        "«" * 50_000 + "»" * 50_000,
        "`" * 100_000,
        "\n" * 100_000,
        ", and so I really really really " * 4_000,
        "never mind the " * 10_000,
        "\U0001f600\u202e\ufeff" * 30_000,
        " " * 100_000 + "?",
    ],
)
def test_its_cost_is_bounded(text: str) -> None:
    started = time.perf_counter()
    for one in statements(text):
        assert isinstance(one, Statement)
        assert len(one.text) <= max(WHOLE + 2, 2 * LOOKED_AT)
    assert time.perf_counter() - started < 0.5
