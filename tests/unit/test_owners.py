"""What the recorder of statements takes for one owner's rows, and what not."""

from typing import Any

import pytest

from tests.support.owners import check

TABLES = {"chat": "owner_id", "message": "owner_id", "allowance": "user_id"}
JOINED = 'FROM "chat" INNER JOIN "auth_user" ON ("chat"."owner_id" = "auth_user"."id")'


@pytest.mark.parametrize(
    ("sql", "params", "problem"),
    [
        ('SELECT 1 FROM "chat" WHERE ("chat"."id" = %s AND "chat"."owner_id" = %s)', (1, 5), ""),
        ('SELECT 1 FROM "chat" WHERE "chat"."id" = %s', (1,), "no owner of chat"),
        ('SELECT 1 FROM "auth_user" WHERE "auth_user"."id" = %s', (1,), ""),
        (
            f'SELECT 1 {JOINED} LEFT OUTER JOIN "allowance" ON ("auth_user"."id" = "allowance"."user_id")'
            ' WHERE "chat"."owner_id" = %s',
            (5,),
            "",
        ),
        (
            'SELECT 1 FROM "chat" LEFT OUTER JOIN "message" T3 ON ("chat"."id" = T3."chat_id")'
            ' WHERE "chat"."owner_id" = %s',
            (5,),
            "not joined by owner: T3",
        ),
        (
            "SELECT 1 FROM message m JOIN chat c ON c.owner_id = m.owner_id WHERE m.owner_id = %s AND c.owner_id = %s",
            (3, 4),
            "2 owners",
        ),
        ('DELETE FROM "message" WHERE "message"."owner_id" IN (%s, %s)', (3, 4), "no owner of message"),
        ('INSERT INTO "message" ("id", "owner_id") VALUES (%s, %s), (%s, %s)', (1, 5, 2, 5), ""),
        ('INSERT INTO "message" ("id", "owner_id") VALUES (%s, %s), (%s, %s)', (1, 5, 2, 6), "2 owners"),
        ('INSERT INTO "message" ("id") VALUES (%s)', (1,), "no owner of message"),
        *(
            (
                'INSERT INTO "message" ("id", "owner_id") SELECT * FROM UNNEST((%s)::uuid[], (%s)::integer[])',
                ([1, 2], owners),
                problem,
            )
            for owners, problem in (([5, 5], ""), ([5, 6], "2 owners"))
        ),
        (
            'INSERT OR IGNORE INTO "message" ("at", "owner_id") VALUES (STRFTIME(\'%%Y\', \'NOW\'), %s)',
            (5,),
            "",
        ),
        ("UPDATE message SET seq = 1 WHERE owner_id = %(owner)s", {"owner": 3}, ""),
        ("UPDATE message SET owner_id = %s WHERE id = %s", (3, 1), "no owner of message"),
        (
            'SELECT 1 FROM "chat" WHERE NOT ("chat"."id" = %s AND "chat"."owner_id" = %s)',
            (1, 3),
            "no owner of chat",
        ),
        (
            'SELECT 1 FROM "chat" WHERE ("chat"."owner_id" = %s OR "chat"."id" = %s)',
            (3, 1),
            "no owner of chat",
        ),
        (
            'SELECT 1 FROM "chat" WHERE "chat"."owner_id" = %s AND NOT'
            ' (EXISTS(SELECT 1 FROM "message" U0 WHERE (U0."id" = %s OR U0."id" = %s) AND U0."owner_id" = (%s)))',
            (3, 1, 2, 3),
            "",
        ),
    ],
)
def test_a_statement_names_one_owner_for_each_table(sql: str, params: Any, problem: str) -> None:
    assert check(sql, params, TABLES) == problem


OUTER = 'SELECT EXISTS(SELECT 1 FROM "message" U0 WHERE U0."chat_id" = ("chat"."id")%s) FROM "chat"'
OF_CHAT = ' AND U0."owner_id" = ("chat"."owner_id")'


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        (OUTER % OF_CHAT, "no owner of U0, chat"),
        (OUTER % "", "not joined by owner: chat"),
        (
            'SELECT 1 FROM "chat" INNER JOIN "message" ON ("chat"."id" = "message"."chat_id")',
            "not joined by owner: message",
        ),
        (
            'SELECT 1 FROM "chat" WHERE "chat"."id" IN (SELECT U0."chat_id" FROM "message" U0 LIMIT 5)',
            "no owner of U0, chat",
        ),
        (
            f'{OUTER % OF_CHAT} WHERE EXISTS(SELECT 1 FROM "message" U0 WHERE U0."chat_id" = ("chat"."id"))',
            "not joined by owner: U0_2",
        ),
    ],
)
def test_a_statement_about_many_owners_joins_by_owner(sql: str, problem: str) -> None:
    """A subquery that depends on nothing outside is run by itself; each of several `U0` needs the condition."""
    assert check(sql, (), TABLES) == problem
