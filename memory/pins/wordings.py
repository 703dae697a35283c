"""How people word statements in English that hold until they are taken back: compiled patterns. Only data.

In a pattern with a group, the group begins at the cue. Sentences are searched without quotations and with straight
apostrophes. Rarer wordings, and statements in other languages, are found by the summarizer.
"""

import re

_NAME = r"(?-i:[^\W\d_a-zà-ÿ][\w'.-]+)"
"""A word that begins with a capital letter."""
_ANSWERS = r"(?:answers?|repl(?:y|ies)|responses?|explanations?|messages?|summar(?:y|ies)|code (?:samples?|examples?))"
_VERBS = (
    r"(?:answer|respond|reply|use|write|give(?! up)|provide|include|show|format|explain|list|mention|cite|add|"
    r"keep(?! \w+ing)|start|begin|end|speak|talk|translate|convert|quote|remind me|tell me|ask me|check|make sure|"
    r"ensure|avoid|skip|leave out|omit|limit|highlight|suggest|recommend|offer|break|prioriti[sz]e|consider|refer|"
    r"summari[sz]e|assume|present|express|state|describe|define|specify|justify|illustrate|demonstrate|compare|label|"
    r"name|number|round|spell|put|return|point out|verify|confirm|calculate|correct|focus|emphasi[sz]e|maintain|"
    r"respect|choose|organi[sz]e|schedule|note|document|test|estimate|outline|draft|order|sort|group|track|log|plan|"
    r"review|discuss|frame|tailor|adapt|adjust|match|simplify|clarify|report|combine|separate|attach|link|assess|call)"
)
_WHEN = (
    r"(?:(?:when|if|whenever|every time|each time)\s+I\s+(?:ask(?! (?:my|him|her|them))|mention|request|bring up|"
    r"talk about|discuss|say|want to know)|(?:when|whenever|every time|each time)\s+you\s+(?:answer|respond|reply|"
    r"write|give|show|explain|suggest|mention|use|cite|compare|list|solve|calculate))\b"
)
_LEADS = r"from (?:now|here|today|this point)(?: on| out| forward| onwards?)?|(?:going|moving) forward"
_BEFORE = (
    r"(?:(?:please|also|and|but|so|ok|okay|well|now|hey|hi|hello|thanks|thank you|great|sure|yes|no|just|actually|"
    rf"by the way|one more thing|again|note|remember|{_LEADS})\b[,:!.]?\s+){{0,8}}"
)
"""At most eight, or a message of nothing else would take a second."""
_FIRST = rf"^\W*{_BEFORE}"
_TRAIT = r"(?:allergic\s+to(?!\s+nothing)|(?:a\s+)?(?:vegetarian|vegan|diabetic)\b)"
"""A person's trait, after "I'm"."""
_CLAUSE = rf"(?:^\W*|[,;:–—(]\s*|\b(?:and|but|so|because|since|as|although|while|given that|that|with|in)\s+){_BEFORE}"
"""Where a clause may begin."""
_STRICT = rf"(?:^\W*|[,.:;–—]\s*){_BEFORE}"
"""Where a sentence may begin."""


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _cue(where: str, *ways: str) -> re.Pattern[str]:
    """One of `ways`, which is the pattern's group, at the place `where`."""
    return _compiled(f"{where}({'|'.join(ways)})")


ALWAYS = _cue(
    _STRICT,
    rf"(?:always|never)\s+{_VERBS}\b",
    rf"always\s+\w+\b(?=[^.!?]{{1,150}}?\b{_WHEN})",
    r"you\s+(?:should|must)\s+(?:always|never)\b",
    r"I(?:'d like| would like| want| need)\s+you\s+to\s+(?:always|never)\b",
    r"make sure\s+(?:that\s+)?(?:you|to)\s+(?:always|never)\b",
    rf"(?:keep|make|write|format)\s+(?:all\s+)?your\s+{_ANSWERS}",
    r"(?:answer|reply|respond|speak|write)\s+(?:always|only)\s+in\b",
    rf"(?:don't|do not)\s+\w+\b.{{1,60}}\bin\s+(?:your|any|all)\s+(?:of\s+your\s+)?{_ANSWERS}",
)
"""An instruction that says itself that it always holds."""
LASTING = _compiled(
    rf"\b(?:{_LEADS})\b|^\W*in (?:the )?future\b|\bfor the rest of (?:this|our|the) (?:chat|conversation)\b"
    rf"|\bat all times\b|\b(?:in|for) (?:all|every|each|any)(?: of)?(?: your| my)? (?:questions?|{_ANSWERS})|\b{_WHEN}"
)
"""Phrases that make an instruction last, such as "from now on", "whenever I ask", "in all answers"."""
DIRECTS = _cue(
    _CLAUSE,
    rf"(?:(?:always|never|only)\s+)?{_VERBS}\b",
    r"(?:don't|do not)\s+(?!know|think|have|want|need|like|see|understand|care|worry)\w+",
    r"you\s+(?:should|must)\b",
    r"I(?:'d like| would like| want| need)\s+you\b",
)
"""A clause that tells the reader to do something."""
PREFER = _cue(
    _CLAUSE,
    r"I(?:\s+(?:really|still|usually|generally|always|also|much|definitely|strongly|personally|typically|now|do))*\s+"
    r"prefer\b(?!\s+(?:not to say|to think))",
    r"I(?:'d| would)\s+(?:much\s+|really\s+)?(?:prefer|rather(?!\s+die\b))\s++[^,;.?!]*?\b(?:over|than|instead of)\b",
    r"I\s+(?:always\s+|usually\s+)?prioriti[sz]ed?\s+[^,;.?!]{2,80}?\s(?:over|more than)\b",
    r"my\s+(?:\w+\s+)?preference\s+(?:is|would be|for|has)\b",
    r"my\s+favou?rite\s+(?!part|thing|memor|moment)[\w' -]{2,40}?\s(?:is|are)\b(?! when)",
    r"I\s+(?:really\s+)?(?:like|love|enjoy)\s+[^,;.?!]{2,60}?\s(?:better|more)\s+than\b",
)
IDENTITY = _cue(
    _CLAUSE,
    rf"my\s+(?:full\s+|first\s+|last\s+)?name(?:'s|\s+is)\s+{_NAME}",
    rf"call\s+me\s+{_NAME}",
    rf"(?:I'm|I\s+am)\s+{_NAME}(?:\s+{_NAME})?,\s+an?\s+\w+",
    r"my\s+pronouns\s+are\b",
    rf"(?:I'm|I\s+am)\s+{_TRAIT}",
)
REMEMBER = _cue(
    _FIRST,
    r"(?:remember|keep in mind|don't forget)[,:]?\s+(?:that\s+)?(?:my\b|our\b|I'm\b(?! (?:always )?here)|I've\b|"
    r"I\s+(?:am|have|live|work)\b|we\s+(?:are|have|only)\b|this\b(?=.*:))",
    r"for\s+future\s+reference[,:]?\s",
)
TAKE_BACK = _cue(
    _FIRST,
    r"(?:never\s?mind|forget|ignore|disregard|drop|cancel|(?:don't|do not) remember that)\s+(?:about\s+)?"
    r"(?:what\s+I\s+said\s+about\s+)?(?P<back>[^,;.!?]+)",
    r"I\s+(?:no longer|don't(?=[^,;.!?]*\sany\s?more\b))\s+(?:want|need|prefer)\s+(?P<want>[^,;.!?]+)",
    r"(?:don't|do not)\s+(?P<less>(?:always|call\s+me)\s[^,;.!?]+)",
    r"(?P<name>my\s+name(?:'s|\s+is)(?:\s+not|n't)\s[^,;.!?]+)",
    r"(?P<stop>stop\s+\w+ing\b[^,;.!?]*)",
    rf"(?:I'm|I\s+am)\s+(?:no\s+longer|not(?=[^,;.!?]*\sany\s?more\b))\s+(?P<trait>{_TRAIT}[^,;.!?]*)",
    rf"(?:I'm|I\s+am)\s+not\s+(?P<denied>{_TRAIT}[^,;.!?]*)",
)
"""Its named groups are the statement taken back. `stop` and `trait` may be statements themselves."""
CALLED = _compiled(
    r"\b(call me|my (?:full |first |last )?name|my pronouns)\b"
    r"(?!.*\b(?:when|whenever|if|while|during|until|unless|in)\b)"
)
"""Facts of which only one holds at a time, such as a person's name; not those for certain occasions."""
HERE = _compiled(
    r"\b(?:this(?! point)|these|(?<!from )(?:here|today)|tonight|for now|right now|above|below|attached)\b"
    r"|\b(?:our|the) (?:current )?(?:chat|conversation|discussion|session|thread)\b"
)
"""Words such as "this chat", which mean something else, or nothing, in another chat."""
PLAIN = _compiled(r"[\w\s.,;!?'’\"“”()/&%+°€$£–—-]+")
"""A sentence without signs that structure a prompt, such as colons and brackets."""
ASKS = _cue(
    _FIRST,
    r"(?:what|which|who|whom|whose|how|why|where|when\s+(?:is|are|do|does|did|should|can|will|was|would)|"
    r"(?:do|does|did)\s+(?:you|I|we|they|he|she|it|people|the|any)|is|are|am|was|were|can|could|should|shall|would|"
    r"will|has|have|had|may|might)\b",
)
"""The beginning of a question."""
SAYS = _compiled(
    r"\b(?:said|says|saying|replied|told|tells|wrote|thinks?|asked|asks|claims|if|whether|she|he|they|pretend|"
    r"(?:imagine|suppose) that|hypothetically|act as|(?:begins?|starts?) with|an example|off the record|"
    r"(?<!don't )(?<!not )(?<!never )forget|(?:don't|not|never|no need to)\s+(?:\w+\s+){0,2}"
    r"(?:remember|save|store|keep|note|record))\b[^,;]*[,:;]?\s*$"
)
"""Precedes a clause that another person says, that is only supposed, or that the user does not want to be kept."""
ONCE = _compiled(
    r"\b(?:(?:just|only) (?:this )?once|this once|this time|for this (?:one|task|question|answer|reply|message))\b"
)
"""Phrases that limit an instruction to a single answer."""
LABEL = _compiled(
    r"notes?|reminder|rules?|instructions?|preferences?|p\.?s\.?|fyi|important|remember|request|one more thing|"
    r"correction|update|wichtig|importante|nota"
)
"""Words before a colon that do not name a speaker."""
