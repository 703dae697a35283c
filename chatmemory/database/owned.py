"""Rows that belong to an owner: each has the owner's id, and comparing a key to a row compares the owners, too, so that
several databases can share the rows (docs/scale.md).

Every row that is reached by its owner or its chat has the owner's id in a column, and every statement about such rows
names it: in its conditions, and between the tables that it joins. A database that distributes rows by owner then finds
all of them in one place. Keys are those of the models; `distribution` adds the owner to each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from django.apps import apps
from django.db.models import ForeignKey, IntegerField, Model, OneToOneField, QuerySet
from django.db.models.fields.related_descriptors import ForwardManyToOneDescriptor, ForwardOneToOneDescriptor
from django.db.models.fields.related_lookups import RelatedExact
from django.db.models.sql.compiler import SQLCompiler


@dataclass(frozen=True, slots=True)
class ChatKey:
    """Which chat, and whose."""

    id: UUID
    owner_id: int

    def __iter__(self) -> Iterator[Any]:
        """Yield both, as values of a compiled statement."""
        return iter((self.id, self.owner_id))

    @property
    def columns(self) -> dict[str, Any]:
        """The columns by which rows refer to it: for filters, and for new rows."""
        return {"chat_id": self.id, "owner_id": self.owner_id}


class Owned(Model):
    """A row of an owner, saved and read again by its key and its owner."""

    OWNER: ClassVar[str] = "owner_id"
    """The attribute, and the column, that hold the owner's id."""

    class Meta:
        abstract = True

    @classmethod
    def owner_column(cls) -> str:
        return str(cls._meta.get_field(cls.OWNER).column)  # type: ignore[union-attr]

    def owner_key(self) -> dict[str, Any]:
        """The filter by this row's owner; empty if the owner is deferred."""
        return {self.OWNER: self.__dict__[self.OWNER]} if self.OWNER in self.__dict__ else {}

    def _do_update(self, base_qs: QuerySet[Any], *args: Any) -> Any:
        """Update this row, as Django's method of this name."""
        return super()._do_update(base_qs.filter(**self.owner_key()), *args)

    def refresh_from_db(
        self,
        using: str | None = None,
        fields: Iterable[str] | None = None,
        from_queryset: QuerySet[Any] | None = None,
    ) -> None:
        if from_queryset is None:
            from_queryset = type(self)._base_manager.db_manager(using).filter(**self.owner_key())
        super().refresh_from_db(using, fields, from_queryset)


def owned_tables() -> dict[str, str]:
    """The owner's column of each table that has one, by table."""
    owned = (model for model in apps.get_models() if issubclass(model, Owned))
    return {model._meta.db_table: model.owner_column() for model in owned}


class OwnedByChat(Owned):
    """A row of a chat. It takes its owner from the row that it refers to, such as `chat=chat`."""

    owner_id = IntegerField(editable=False)

    class Meta:
        abstract = True

    @property
    def chat_key(self) -> ChatKey:
        """The key of its chat, if it refers to one."""
        return ChatKey(self.chat_id, self.owner_id)  # type: ignore[attr-defined]


class _TakesOwner:
    """A reference that hands its owner on to the row that refers to it."""

    def __set__(self, instance: Any, value: Any) -> None:
        super().__set__(instance, value)  # type: ignore[misc]
        if value is not None and instance.__dict__.get(instance.OWNER) is None:
            setattr(instance, instance.OWNER, getattr(value, value.OWNER))


class _ManyToOne(_TakesOwner, ForwardManyToOneDescriptor):  # type: ignore[type-arg]
    pass


class _OneToOne(_TakesOwner, ForwardOneToOneDescriptor):  # type: ignore[type-arg]
    pass


class _SameOwner:
    """Adds the owner to the join condition of a reference between rows of one owner."""

    model: Any
    remote_field: Any
    one_to_one: bool

    def get_extra_descriptor_filter(self, instance: Owned) -> dict[str, Any]:
        key = instance.owner_key()
        return {self.remote_field.model.OWNER: key[instance.OWNER]} if key else {}

    def get_extra_restriction(self, alias: str | None, related_alias: str) -> _EqualOwners | None:
        if alias is None:
            return None  # Django has left the join out
        return _EqualOwners(
            (alias, self.remote_field.model.owner_column()),
            (related_alias, self.model.owner_column()),
        )

    def deconstruct(self) -> tuple[str, str, Any, Any]:
        """Migrations see Django's field, whose column and key it has."""
        name, _, args, kwargs = super().deconstruct()  # type: ignore[misc]
        django = "OneToOneField" if self.one_to_one else "ForeignKey"
        return name, f"django.db.models.{django}", args, kwargs


class OwnedKey(_SameOwner, ForeignKey):  # type: ignore[type-arg, misc]
    """A foreign key between rows of one owner."""

    forward_related_accessor_class = _ManyToOne


class OwnedOneToOne(_SameOwner, OneToOneField):  # type: ignore[type-arg, misc]
    """The same, one to one."""

    forward_related_accessor_class = _OneToOne


class _EqualOwners:
    """The condition of a join that both rows have one owner."""

    def __init__(self, *columns: tuple[str, str]) -> None:
        self.columns = columns

    def as_sql(self, compiler: SQLCompiler, connection: Any) -> tuple[str, list[Any]]:
        name = compiler.quote_name_unless_alias
        return " = ".join(f"{name(alias)}.{name(column)}" for alias, column in self.columns), []

    def relabeled_clone(self, change_map: dict[str, str]) -> _EqualOwners:
        return _EqualOwners(*((change_map.get(alias, alias), column) for alias, column in self.columns))


@OwnedKey.register_lookup
@OwnedOneToOne.register_lookup
class _OfOne(RelatedExact):
    """`chat=chat`: the given row's owner is part of the condition."""

    def __init__(self, lhs: Any, rhs: Any) -> None:
        if isinstance(rhs, ChatKey):
            raise TypeError("Filter by `**key.columns`.")  # its id alone would be taken
        self.owner: int | None = getattr(rhs, rhs.OWNER) if isinstance(rhs, Owned) else None
        super().__init__(lhs, rhs)

    def as_sql(self, compiler: SQLCompiler, connection: Any) -> tuple[str, tuple[Any, ...]]:
        sql, params = super().as_sql(compiler, connection)
        if self.owner is None:
            return sql, tuple(params)
        name = compiler.quote_name_unless_alias
        column = f"{name(self.lhs.alias)}.{name(self.lhs.target.model.owner_column())}"
        return f"({sql} AND {column} = %s)", (*params, self.owner)
