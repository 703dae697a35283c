"""Characters that look like an ASCII letter or sign, but are not normalized to it. Only data.

From the confusables of Unicode Technical Standard #39 (as of 2024-01, Unicode License v3): those of the letters and
signs in our markers, without those that `chatmemory.text.confusables` lists by hand and those that NFKD folds anyway.
Strokes used in Chinese and Japanese, and digits that mean themselves, are left out.
"""

from __future__ import annotations

from typing import Final

CONFUSABLES: Final = {
    "a": "\u13aa\u15c5\u237a\ua4ee\U000102a0\U00016f40",
    "b": "\u0184\u13cf\u13f4\u1472\u15af\u15f7\ua4d0\ua7b4\U00010282\U000102a1\U00010301",
    "c": (
        "\u03f2\u03f9\u13df\u2ca4\u2ca5\ua4da\uabaf\U000102a2\U00010302\U00010415\U0001043d\U0001051c"
        "\U000118e9\U000118f2\U0001f74c"
    ),
    "d": "\u13a0\u13e7\u146f\u15de\u15ea\ua4d2\ua4d3",
    "e": "\u04bd\u13ac\u212e\u22ff\u2d39\ua4f0\uab32\U00010286\U000118a6\U000118ae",
    "f": (
        "\u03dc\u15b4\ua4dd\ua798\ua799\uab35\U00010287\U000102a5\U00010525\U000118a2\U000118c2"
        "\U0001d213\U0001d7ca"
    ),
    "g": "\u018d\u13c0\u13f3\u1d83\ua4d6",
    "h": "\u13bb\u13c2\u157c\u2c8e\ua4e7\U000102cf\U0001d6ae\U0001d6e8\U0001d722\U0001d75c\U0001d796",
    "i": "\u0269\u02db\u037a\u13a5\u2373\ua647\uab75\U000118c3",
    "j": "\u037f\u03f3\u13ab\u148d\ua4d9\ua7b2",
    "k": "\u13e6\u16d5\u2c94\ua4d7\U00010518",
    "l": (
        "\u0196\u13de\u14aa\u16c1\u23fd\u2c92\u2cd0\u2d4f\ua4e1\ua4f2\U0001028a\U00010309\U00010320"
        "\U0001041b\U00010526\U000118a3\U000118b2\U00016f16\U00016f28\U0001d22a"
    ),
    "m": (
        "\u03fa\u13b7\u15f0\u16d6\u2c98\ua4df\U000102b0\U00010311\U0001d6b3\U0001d6ed\U0001d727"
        "\U0001d761\U0001d79b"
    ),
    "n": "\u057c\u2c9a\ua4e0\U00010513\U0001d6b4\U0001d6ee\U0001d728\U0001d762\U0001d79c",
    "o": (
        "\u03c3\u06f5\u0966\u09e6\u0a66\u0ae6\u0b20\u0b66\u0be6\u0c02\u0c66\u0c82\u0ce6\u0d02\u0d20"
        "\u0d66\u0d82\u0e50\u0ed0\u101d\u1040\u10ff\u12d0\u1d11\u2c9e\u2c9f\u2d54\u3007\ua4f3\uab3d"
        "\U00010292\U000102ab\U00010404\U0001042c\U000104c2\U000104ea\U00010516\U000114d0\U000118b5"
        "\U000118c8\U000118d7\U000118e0\U0001d6d4\U0001d70e\U0001d748\U0001d782\U0001d7bc"
    ),
    "p": "\u13e2\u146d\u2374\u2ca2\u2ca3\ua4d1\U00010295",
    "q": "\u0563\u0566\u2d55",
    "r": "\u13a1\u13d2\u1587\u1d26\u2c85\ua4e3\uab47\uab48\uab81\U000104b4\U00016f35\U0001d216",
    "s": "\u01bd\u13d5\u13da\ua4e2\uabaa\U00010296\U00010420\U00010448\U000118c1\U00016f3a",
    "t": "\u13a2\u22a4\u27d9\u2ca6\ua4d4\U00010297\U000102b1\U00010315\U000118bc\U00016f0a\U0001f768",
    "u": (
        "\u028b\u1200\u144c\u222a\u22c3\ua4f4\ua79f\uab4e\uab52\U000104ce\U000104f6\U000118b8"
        "\U000118d8\U00016f42"
    ),
    "v": (
        "\u0474\u0475\u06f7\u13d9\u142f\u2228\u22c1\u2d38\ua4e6\ua6df\uaba9\U0001051d\U00011706"
        "\U000118a0\U000118c0\U00016f08\U0001d20d"
    ),
    "w": "\u026f\u0461\u0561\u13b3\u13d4\ua4ea\uab83\U0001170a\U0001170e\U0001170f\U000118e6\U000118ef",
    "x": (
        "\u00d7\u1541\u157d\u166d\u166e\u16b7\u2573\u292b\u292c\u2a2f\u2cac\u2d5d\ua4eb\ua7b3"
        "\U00010290\U000102b4\U00010317\U00010322\U00010527\U000118ec"
    ),
    "y": (
        "\u0263\u03b3\u03d2\u04af\u10e7\u13a9\u13bd\u1d8c\u1eff\u213d\u2ca8\ua4ec\uab5a\U000102b2"
        "\U000118a4\U000118dc\U00016f43\U0001d6bc\U0001d6c4\U0001d6f6\U0001d6fe\U0001d730\U0001d738"
        "\U0001d76a\U0001d772\U0001d7a4\U0001d7ac"
    ),
    "z": "\u13c3\ua4dc\uab93\U000102f5\U000118a9\U000118c4\U000118e5",
    "(": "\u2768\u2772\ufd3e",
    ")": "\u2769\u2773\ufd3f",
    "*": "\u204e\u2217\U0001031f",
    "-": "\u02d7\u2043\u2796\u2cba",
    "/": "\u1735\u2041\u2044\u2215\u2571\u27cb\u29f8\u2cc6\U0001d23a",
    ":": "\u0903\u0a83\ufe30",
    "<": "\u16b2\U0001d236",
    "=": "\ua4ff",
    ">": "\U00016f3f\U0001d237",
}
"""By the lower-case letter, or the sign, that they resemble."""
