"""Numbers and amounts as text for people. Pure."""

from decimal import Decimal

_UNITS = ((1e9, "B"), (1e6, "M"), (1e3, "k"))


def short(number: float) -> str:
    """Format a number with about three digits: `1,234`, `12.3k`, `4.56M`."""
    if abs(number) < 9_999.5:
        return f"{number:,.0f}"
    size, unit = next(one for one in _UNITS if abs(number) >= 0.9995 * one[0])
    scaled = number / size
    digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
    return f"{scaled:,.{digits}f}{unit}"


def usd(amount: Decimal | float | None) -> str:
    """Format an amount, with more decimals if it is small: `$12.34`, `$0.0123`; a dash if it is not known."""
    if amount is None:
        return "–"
    value = float(amount)
    if value == 0:
        return "$0.00"
    if abs(value) >= 1:
        return f"${value:,.2f}"
    return f"${value:.6f}" if abs(value) < 0.001 else f"${value:.4f}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 turn`, `1,234 turns`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
