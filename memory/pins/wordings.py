"""How people word statements in English that hold until they are taken back: compiled patterns. Only data.

In a pattern with a group, the group begins at the cue. Sentences are searched without quotations and with straight
apostrophes. Statements in other languages are found by the summarizer.
"""

import re

_NAME = r"(?-i:[^\W\d_a-zà-ÿ][\w'.-]+)"
"""A word that begins with a capital letter."""
_ANSWERS = (
    r"(?:answers?|repl(?:y|ies)|responses?|explanations?|messages?|summar(?:y|ies)|"
    r"code (?:samples?|snippets?|examples?))"
)
_VERBS = (
    r"(?:answer|respond|reply|use|write|give(?! up)|provide|include|show|format|explain|list|mention|cite|add|"
    r"keep(?! \w+ing)|start|begin|end|finish|call me|address me|speak|talk|treat me|translate|convert|quote|"
    r"remind me|tell me|ask me|check|double-check|make sure|ensure|avoid|skip|leave out|omit|limit|stick to|"
    r"highlight|suggest|recommend|offer|break|prioriti[sz]e|consider|refer|summari[sz]e|sign|assume|present|express|"
    r"prefix|say(?! never)|send me|state|describe|define|specify|justify|back up|illustrate|demonstrate|compare|"
    r"label|name|number|round|spell|put|return|output|print|warn me|point out|follow|verify|confirm|calculate|do|"
    r"correct|cross-check|focus|emphasi[sz]e|maintain|respect|choose|pick|organi[sz]e|schedule|note|document|test|"
    r"account|notify|alert|flag|estimate|outline|draft|prepare|order|sort|group|track|log|record|compute|factor|plan|"
    r"review|rely|opt|discuss|introduce|frame|tailor|adapt|adjust|match|simplify|clarify|report|combine|separate|"
    r"mark|attach|link|assess|evaluate|weigh|identify|acknowledge|analy[sz]e)"
)
_NOT_OURS = (
    r"(?!.{0,60}\b(?:yourself|your (?:dreams?|heart|life|family|friends|gut|instincts?|best|passion|loved)))"
)
_ASKING = (
    r"(?:ask(?:ed|ing)?(?! (?:my|him|her|them|for (?:help|permission)))|mention|request|inquire|bring up|"
    r"talk about|discuss|say|type|want to know|refer to|have questions?|am asking|'m asking|tell you to)\b"
)
_ASKING_ANY = r"(?:send|share|paste|post|upload|write|need|want|give|start|work|talk|get|do)\b"
_WHEN = (
    rf"(?:when|if|where)\s+I\s+{_ASKING}|(?:whenever|every time|each time|any ?time)\s+I(?:\s+{_ASKING}|"
    rf"\s+{_ASKING_ANY})"
    rf"|(?:whenever|every time|each time|any ?time|when)\s+you\s+(?:answer|respond|reply|write|give|show|explain|"
    r"suggest|use|quote|mention|cite|recommend|describe|edit|review|draft|solve|calculate|translate|summari[sz]e|"
    r"compare|list|provide|create|generate|refer to|talk about|discuss)\b"
)

_FILLERS = (
    r"please|pls|also|and|but|so|ok|okay|oh|well|now|hey|hi|hello|thanks|thank you|great|perfect|sure|yes|no|"
    r"just|actually|by the way|btw|one (?:more|other|last) thing|another thing|again|note|important|ps|p\.s|fyi|"
    r"in the future|in future|in general|generally|overall|personally|honestly|for me|as always|first|then|finally|"
    r"last(?:ly)?|remember"
)
_LINKS = (
    r"and|but|so|because|since|as|although|though|while|given that|considering(?: that)?|note that|noting that|"
    r"remember that|that|where|then|in|with|given|per|on|to match|to fit|due to|about"
)
_LEADS = (
    r"from (?:now|here|today|this (?:point|moment|message))(?: on| out| forward| onwards?)*|going forward|"
    r"moving forward|henceforth"
)
_BEFORE = rf"(?:(?:{_FILLERS}|{_LEADS})\b[,:!.]?\s+)*"
_FIRST = rf"^\W*{_BEFORE}"
_CLAUSE = rf"(?:^\W*|[,;:–—(]\s*|\b(?:{_LINKS})\s+){_BEFORE}"
"""Where a clause may begin."""
_STRICT = rf"(?:^\W*|[:;–—]\s*|[,.]\s*(?:(?:{_LINKS})\s+)?){_BEFORE}"
"""Where a sentence may begin."""


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _cue(where: str, *ways: str) -> re.Pattern[str]:
    """One of `ways`, which is the pattern's group, at the place `where`."""
    return _compiled(f"{where}({'|'.join(ways)})")


ALWAYS = _cue(
    _STRICT,
    rf"(?:always|never)\s+(?!mind\b){_NOT_OURS}{_VERBS}\b",
    rf"(?:always|never)\s+(?!mind\b)\w+\b(?=.*\b(?:{_WHEN}))",
    r"(?:always|never)\s+be\s+(?:brief|concise|polite|formal|informal|honest|direct|short|specific|precise|"
    r"critical|kind|"
    r"verbose|too \w+)\b",
    rf"only\s+(?:answer|reply|respond|speak|write|use)\b.*\b(?:in\s+(?-i:[A-Z])\w+|{_ANSWERS})",
    r"you\s+(?:should|must|need to|have to|are to)\s+(?:always|never)\b",
    rf"I(?:'d| would)?\s+(?:always\s+)?(?:want|need|like|expect|prefer)\s+(?:you|"
    rf"(?:all\s+)?(?:of\s+)?your\s+{_ANSWERS})\s+to\s+(?:always|never)\b",
    rf"I(?:'d| would)?\s+(?:want|need|like|expect|prefer)\s+(?:all|every|each)\s+(?:of\s+)?(?:your\s+|the\s+)?"
    rf"{_ANSWERS}\s+(?:to\s+be|in)\b",
    r"make sure\s+(?:that\s+)?(?:you|to|your\s+\w+)\s+(?:are\s+)?(?:always|never)\b",
    rf"(?:don't|do not)\s+ever\s+{_VERBS}\b",
    rf"(?:don't|do not)\s+(?!need|have)\w+\b.{{1,60}}\bin\s+(?:your|any|all)\s+(?:of\s+your\s+)?{_ANSWERS}",
    rf"(?:keep|make|write|format|give|limit)\s+(?:all\s+|every\s+|each\s+)(?:of\s+)?(?:your\s+|the\s+|"
    rf"my\s+)?{_ANSWERS}",
    rf"(?:keep|make|write|format|limit)\s+your\s+{_ANSWERS}",
    r"(?:answer|reply|respond|speak|talk|write)\s+(?:to me\s+)?(?:always|only|exclusively)\s+in\b",
    rf"{_VERBS}\b(?!.*\b(?:who|which|that|can|will|is|are)\s+always).{{1,120}}\s(?:always|at all times|"
    rf"every time|each time)\s*[.!]*$",
)
"""An instruction that says itself that it always holds."""
LASTING = _compiled(
    rf"\b(?:{_LEADS})\b"
    r"|(?:^\W*|[,;:]\s*)in (?:the )?future\b|\b(?:for|throughout) the (?:rest|remainder) of (?:this|our|"
    r"the) (?:chat|conversation|session)"
    rf"|\bin (?:all|every|each|any)(?: of)?(?: your| the)? (?:future |further )?{_ANSWERS}"
    rf"|\b(?:for|to|with) (?:all|every|each|any)(?: of)?(?: my| your)? (?:future |further )?(?:questions?|"
    rf"requests?|{_ANSWERS})"
    rf"|\b(?:{_WHEN})|\b(?:until|unless) I (?:say|tell|ask)\b|\bat all times\b|\bas a (?:general )?rule\b"
)
"""Phrases that make an instruction last, such as "from now on", "whenever I ask", "in all answers"."""
DIRECTS = _cue(
    _CLAUSE,
    rf"(?:(?:always|never|only|just)\s+)?{_VERBS}\b",
    r"(?:don't|do not)\s+(?!know|think|have|want|need|like|see|understand|care|worry)\w+",
    r"you\s+(?:should|must|need to|have to|are to)\b",
    rf"I(?:'d| would)?\s+(?:like|want|need|expect|prefer)\s+(?:you\b|(?:all\s+)?(?:of\s+)?your\b|"
    rf"all\s+{_ANSWERS})",
    r"let's\s+(?:always|only|use|speak|write|stick|keep)\b|no (?:more )?(?:emojis?|jargon|bullet points|"
    r"small talk)",
)
"""A clause that tells the reader to do something."""
POLITE = _cue(
    _FIRST,
    rf"(?:can|could|would|will)\s+you\s+(?:please\s+|also\s+)*(?:always|never|from now on,?)\s+{_VERBS}",
)
"""The same as `ALWAYS`, phrased as a question."""
PREFER = _cue(
    _CLAUSE,
    r"I(?:\s+(?:really|still|usually|generally|always|also|much|definitely|strongly|personally|typically|"
    r"tend to|now|actually|mostly|normally|just|kinda|kind of|do|clearly|often))*\s+(?:prefer|favou?r|"
    r"lean towards?)\b(?!\s+(?:not to say|to think))",
    r"I(?:'ve| have)\s+(?:always|long|generally|usually|mostly|come to|started to)\s+prefer(?:red)?\b",
    r"my\s+(?:\w+\s+)?preference\s+(?:is|would be|for|has)\b",
    r"my\s+(?:all-time\s+|absolute\s+|own\s+)?favou?rite\s+(?!part|thing|memor|moment)[\w' -]{2,40}?\s(?:is|"
    r"are)\b(?! when)",
    r"I(?:'d| would)\s+(?:much\s+|really\s+)?(?:rather|prefer(?:\s+it)?\s+if)\s+you\b",
    r"I(?:'d| would)\s+(?:much\s+|really\s+|generally\s+|always\s+)?prefer\s+[^,;.?!]*?\b(?:over|rather than|"
    r"to keep|to avoid)\b",
    r"I(?:'d| would)\s+(?:much\s+|really\s+|always\s+)?rather\s+(?!die\b)"
    r"(?:avoid\b|[^,;.?!]{2,60}?\s(?:than|instead of)\b)",
    r"I(?:'d| would)\s+(?:always\s+|usually\s+)?(?:choose|pick|take)\s+[^,;.?!]{2,60}?\s(?:over|rather than|"
    r"instead of)\b",
    r"I\s+(?:really\s+|always\s+|generally\s+)?value\s+[^,;.?!]{2,60}?\s(?:above|over|more than)\b",
    r"I(?:'ve| have|'m| am)?\s+(?:also\s+|recently\s+|already\s+)?(?:chose|chosen|decided\s+(?:on|to\s+(?:use|"
    r"go with))|opted\s+(?:for|to\s+use)|"
    r"picked|went with|going with|settled on|selected)\s+[^,;.?!]{2,80}?\s(?:over|instead of|rather than)\s",
    r"I(?:\s+(?:really|usually|generally|always|tend to|also))*\s+(?:learn|work|focus|study|understand|write|"
    r"concentrate)\s+(?:things\s+)?best\b",
    r"I(?:'m| am)\s+(?:much\s+|far\s+)?(?:more|most)\s+(?:comfortable|productive|at ease)\s+(?:with|using|in|"
    r"when|working)\b",
    r"I\s+(?:always|generally|usually|try to|tend to|like to)\s+avoid\b",
    r"I\s+(?:really\s+|much\s+|usually\s+|generally\s+)?(?:like|love|enjoy)\s+[^,;.?!]{2,60}?\s(?:better|"
    r"more)\s+than\b",
    r"I\s+(?:really\s+|usually\s+|generally\s+)?like\s+(?!the|it|this|that|to hear)[^,;.?!]{2,40}?\s(?:better|"
    r"best)\b",
    r"I\s+(?:really\s+|strongly\s+|generally\s+)?(?:dislike|can't stand)\b|I\s+(?:hate|don't like|"
    r"do not like)\s+it\s+when\s+you\b",
)
IDENTITY = _cue(
    _CLAUSE,
    rf"my\s+(?:full\s+|first\s+|last\s+|legal\s+|real\s+|nick|middle\s+|family\s+)?name(?:'s|\s+is)\s+{_NAME}",
    rf"(?:you\s+(?:can|may|should)\s+)?(?:just\s+)?call\s+me\s+{_NAME}",
    rf"(?:I\s+go\s+by|I'm\s+called|I\s+am\s+called|(?:everyone|everybody|people|friends|"
    rf"my friends)\s+calls?\s+me)\s+{_NAME}",
    rf"(?:I'm|I\s+am)\s+{_NAME}(?:\s+{_NAME})?,\s+an?\s+\w+",
    r"my\s+pronouns\s+are\b|my\s+(?:birthday|date of birth|time ?zone|native language|mother tongue|"
    r"first language)\s+is\b",
    r"(?:I'm|I\s+am)\s+(?:severely\s+|highly\s+|also\s+|very\s+)?(?:allergic\s+to(?!\s+nothing)|lactose|gluten|"
    r"(?:a\s+)?(?:strict\s+)?(?:vegetarian|vegan)\b|diabetic"
    r"|colou?r-?\s?blind|dyslexic|left-handed)",
)
REMEMBER = _cue(
    _FIRST,
    r"(?:remember|keep in mind|bear in mind)[,:]?\s+(?:that\s+)?(?:my\b|our\b|I'm\b(?! (?:always )?here)|"
    r"I've\b|(?:I|we)\s+(?!talked|discussed|mentioned|"
    r"said|told|asked|went|were|was|met|used to|had|did|made|saw|spoke|agreed)|for (?:all|every|future|later|"
    r"next)\b|whenever\b|all\b|every\b|"
    r"you\s+(?:should|must|need to|have to|are (?:to|my))\b|this\b(?=.*:)|the following\b)",
    rf"remember\s+to\s+(?:always\b|never\b|{_VERBS}\b)|"
    rf"don't\s+(?:ever\s+)?forget[,:]?\s+(?:that\s+)?(?:my\b|our\b|I'm\b|I\s+(?!asked|told|said))",
    r"(?:make|take)\s+(?:a\s+)?note[,:]?\s+(?:that\s+|of\s+)?|for\s+future\s+reference[,:]?\s",
)
TAKE_BACK = _cue(
    _FIRST,
    r"(?:never\s?mind|forget|ignore|disregard|scrap|drop|cancel|undo|"
    r"take back)\s+(?:about\s+)?(?:what\s+I\s+(?:said|told you|asked)\s+"
    r"(?:about|on|regarding|for)\s+)?(?P<back>[^,;.!?]+)",
    r"(?:from now on,?\s+)?you\s+(?:can\s+stop|no longer\s+(?:need|have)\s+to|(?:don't|do not)\s+(?:need|"
    r"have)\s+to)\s+(?P<need>[^,;.!?]+)",
    r"(?:there(?:'s| is)\s+)?no\s+(?:more\s+)?need\s+(?:to|for)\s+(?P<noneed>[^,;.!?]+?)(?:\s+any\s?more|"
    r"\s+any longer)",
    r"I\s+(?:no longer|(?:don't|do not)\s+(?=[^,;.!?]+\bany\s?(?:more|longer)))\s*(?:want|need|prefer|like|use|"
    r"care)\s+(?P<want>[^,;.!?]+)",
    r"(?P<stop>stop\s+\w+ing\b[^,;.!?]*|(?:don't|do not)\s+[^,;.!?]+?\s+any\s?(?:more|longer)\b)",
)
"""Its named groups are what is taken back. `stop` may be an instruction itself."""
ASKS = _cue(
    _FIRST,
    r"(?:what|which|who|whom|whose|how|why|where|when\s+(?:is|are|do|does|did|should|can|will|was|would)|"
    r"(?:do|does|did)\s+(?:you|I|we|they|he|she|it|people|the|any)|is|are|am|was|were|can|could|should|shall|would|"
    r"will|has|have|had|may|might)\b",
)
"""The beginning of a question."""
SAYS = _compiled(
    r"\b(?:said|says|saying|replied|told|tells|wrote|thinks?|asked|asks|claims|if|whether|she|he|they)\b"
    r"[^,;]*[,:;]?\s*$"
)
"""Precedes a clause that somebody else says, or that is only supposed."""
LABEL = _compiled(
    r"note|notes|reminder|rules?|instructions?|preferences?|p\.?s\.?|fyi|important|attention|remember|request|language"
    r"|tone|style|format|one (?:more )?thing"
)
"""Words before a colon that do not name a speaker."""
