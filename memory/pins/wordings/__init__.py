"""How people state instructions and preferences, by language. Only data."""

from memory.pins.wordings.english import ENGLISH
from memory.pins.wordings.germanic_slavic import GERMANIC_SLAVIC
from memory.pins.wordings.patterns import Language
from memory.pins.wordings.romance import ROMANCE

LANGUAGES: tuple[Language, ...] = (ENGLISH, *ROMANCE, *GERMANIC_SLAVIC)
