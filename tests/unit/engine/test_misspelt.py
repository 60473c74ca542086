"""Names that are misspelt are told at their place, with the nearest one, and without Spark."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from lakestream import Lake
from lakestream.compute.unknown import unknown_column, unknown_function
from lakestream.errors import LakestreamError
from lakestream.language.expressions.parsing import parse_query
from lakestream.language.model import Fragment
from lakestream.statements.workspace import Workspace
from lakestream.storage.sessions.shared import SharedSpark
from tests.properties.followed import without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = """
CREATE TABLE meters (ts TIMESTAMP, site VARCHAR(4) COMPOSITE KEY, amps INT, volts DOUBLE);
CREATE TABLE sites (ts TIMESTAMP, site VARCHAR(4) COMPOSITE KEY, most INT);
CREATE STABLE st (ts TIMESTAMP, speed INT) TAGS (loc VARCHAR(8));
CREATE TABLE d1 USING st TAGS ('x');
CREATE STREAM hourly INTERVAL(1h) SLIDING(1h) FROM meters PARTITION BY site INTO hourly_out
  AS SELECT _twstart, count(*) AS n, sum(amps) AS total FROM %%trows;
CREATE MATERIALIZED VIEW by_site AS SELECT site, sum(amps) AS total FROM meters GROUP BY site
"""

RELATIONS = {
    "meters": ("amps", "apms"),
    "meters m": ("amps", "apms"),
    "hourly_out": ("total", "totl"),
    "by_site": ("total", "totl"),
    "st": ("speed", "sped"),
    "d1": ("speed", "sped"),
    "(SELECT site AS s, amps AS drawn FROM meters) q": ("drawn", "drwan"),
    "(SELECT amps AS drawn FROM meters UNION SELECT most FROM sites) q": ("drawn", "drwan"),
    "meters m JOIN sites s ON m.site = s.site": ("most", "mots"),
}
PLACES = {
    "a result": "SELECT {c} FROM {r}",
    "an aggregate": "SELECT sum({c}) AS n FROM {r}",
    "a case": "SELECT CASE WHEN {c} > 1 THEN 1 END AS n FROM {r}",
    "a condition": "SELECT 1 AS o FROM {r} WHERE {c} > 1",
    "a group": "SELECT count(*) AS n FROM {r} GROUP BY {c}",
    "a condition on groups": "SELECT count(*) AS n FROM {r} HAVING max({c}) > 1",
    "an order": "SELECT 1 AS o FROM {r} ORDER BY {c}",
    "a window": "SELECT sum(1) OVER (ORDER BY {c}) AS n FROM {r}",
    "a scalar": "SELECT (SELECT max({c}) FROM {r}) AS n",
    "a list": "SELECT 1 AS o FROM sites WHERE most IN (SELECT {c} FROM {r})",
    "a correlated query": "SELECT 1 AS o FROM sites z WHERE EXISTS (SELECT 1 FROM {r} WHERE {c} = z.most)",
    "a query with a name": "WITH w AS (SELECT {c} AS n FROM {r}) SELECT n FROM w",
    "a union": "SELECT 1 AS o UNION ALL SELECT {c} FROM {r}",
}
STATEMENTS = {
    "SELECT": ("{q}", "QUERY_INVALID"),
    "INSERT": ("INSERT INTO sites (ts, site) {q}", "QUERY_INVALID"),
    "VIEW": ("CREATE MATERIALIZED VIEW nv AS {q}", "CALCULATION_INVALID"),
    "STREAM": (
        "CREATE STREAM ns INTERVAL(1m) SLIDING(1m) FROM meters INTO no AS {q}",
        "CALCULATION_INVALID",
    ),
}

NAMES = {
    "SELECT [summ](amps) FROM meters": ("no function summ", "sum"),
    "SELECT [frist_row](amps) FROM meters": ("no function frist_row", "first_row"),
    "SELECT [mm].amps FROM meters m": ("no column mm.amps", "m.amps"),
    "SELECT m.[apms] FROM meters m": ("no column m.apms", "m.amps"),
    "SELECT m.amps FROM meters m JOIN sites s USING ([sitee])": ("no column sitee", "site"),
    "SELECT [_wstrat], count(*) FROM meters INTERVAL(1m)": ("no column _wstrat", "_wstart"),
    "SELECT _wstart, count(*) FROM meters STATE_WINDOW([apms])": ("no column apms", "amps"),
    "SELECT _wstart, count(*) FROM meters PARTITION BY [sitte] INTERVAL(1m)": ("no column sitte", "site"),
    "SELECT diff([apms]) FROM meters": ("no column apms", "amps"),
    "SELECT [stream_nam] FROM information_schema.ins_streams": ("no column stream_nam", "stream_name"),
    "DELETE FROM meters WHERE [lowr](site) = 'a'": ("no function lowr", "lower"),
    "UPDATE meters SET amps = [lowr](site)": ("no function lowr", "lower"),
    "VERIFY STREAM [huorly]": ("no stream main.huorly", "hourly"),
    "EXPLAIN STREAM [huorly]": ("no stream main.huorly", "hourly"),
    "DROP STREAM [huorly]": ("no stream main.huorly", "hourly"),
    "DROP TABLE [metres]": ("no table main.metres", "meters"),
    "SELECT * FROM [metres]": ("no table main.metres", "meters"),
    "INSERT INTO [metres] SELECT * FROM meters": ("no table main.metres", "meters"),
    "INSERT INTO [mian].meters SELECT * FROM meters": ("no database mian", "main"),
    "INSERT INTO d9 USING [stt] TAGS ('x') VALUES (NOW, 1)": ("no table main.stt", "st"),
    "ALTER TABLE [metres] ADD COLUMN x INT": ("no table main.metres", "meters"),
    "CREATE STREAM n INTERVAL(1m) SLIDING(1m) FROM meters PARTITION BY [lowr](site) AS g INTO no "
    "AS SELECT _twstart, count(*) AS n FROM %%trows": ("no function lowr", "lower"),
    "CREATE STREAM n INTERVAL(1m) SLIDING(1m) FROM meters STREAM_OPTIONS(PRE_FILTER([ab](amps) > 1)) INTO no "
    "AS SELECT _twstart, count(*) AS n FROM %%trows": ("no function ab", "abs"),
    "CREATE STREAM n EVENT_WINDOW(START WITH amps > 1 END WITH [ab](amps) < 1) FROM meters INTO no "
    "AS SELECT _twstart, count(*) AS n FROM %%trows": ("no function ab", "abs"),
    "CREATE STREAM n INTERVAL(1m) SLIDING(1m) FROM meters INTO no EXPECT e CHECK ([ab](n) > 1) "
    "ON VIOLATION WARN AS SELECT _twstart, count(*) AS n FROM %%trows": ("no function ab", "abs"),
    "CREATE MATERIALIZED VIEW n AS SELECT [mm].amps FROM meters m": ("no column mm.amps", "m.amps"),
    "CREATE MATERIALIZED VIEW n AS SELECT m.site FROM meters m JOIN sites s ON s.site = [n].site": (
        "no column n.site",
        "m.site",
    ),
    "CREATE MATERIALIZED VIEW n AS SELECT window.start AS at, sum(amps) AS n FROM meters "
    "GROUP BY window([tss], '1 minute')": ("no column tss", "ts"),
    "CREATE STREAM n INTERVAL(1m) SLIDING(1m) FROM meters INTO no "
    "AS SELECT [mm].amps AS n FROM meters m WHERE m.ts >= _twstart AND m.ts < _twend": (
        "no column mm.amps",
        "m.amps",
    ),
    "CREATE STREAM n INTERVAL(1m) SLIDING(1m) FROM meters INTO no "
    "AS SELECT [_twstrat], count(*) AS n FROM %%trows": ("no column _twstrat", "_twstart"),
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with Lake(tmp_path_factory.mktemp("lake")) as lake:
        with without_spark():
            lake.sql(TABLES)
        yield lake


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workspace, "session", property(lambda _: pytest.fail("Spark was asked")))
    monkeypatch.setattr(SharedSpark, "brings_functions", lambda *_: False)  # another test may have one


@pytest.mark.parametrize(("statement", "place"), [*product(STATEMENTS, PLACES)])
def test_a_misspelt_column_is_told_without_spark(lake: Lake, statement: str, place: str) -> None:
    form, code = STATEMENTS[statement]
    number = (*product(STATEMENTS, PLACES),).index((statement, place))
    # Each of the relations is met in all places of some statement.
    for relation, (right, wrong) in [*RELATIONS.items()][number % 3 :: 3]:
        text = form.format(q=PLACES[place].format(c=wrong, r=relation))
        with pytest.raises(LakestreamError) as caught:
            lake.sql(text)
        error = caught.value
        assert error.code == code, text
        assert error.place is not None, text
        assert f"there is no column {wrong}" in error.message
        assert right in error.hint
        assert (error.place.column, error.place.length) == (text.index(wrong) + 1, len(wrong)), text


@pytest.mark.parametrize("marked", NAMES)
def test_a_misspelt_name_is_told_at_its_place(lake: Lake, marked: str) -> None:
    said, right = NAMES[marked]
    at, end = marked.index("["), marked.index("]")
    with pytest.raises(LakestreamError) as caught:
        lake.sql(marked.replace("[", "").replace("]", ""))
    error = caught.value
    assert f"there is {said}" in error.message
    assert right in error.hint.replace("?", "").split()
    assert error.place is not None
    assert (error.place.column, error.place.length) == (at + 1, end - at - 1)


# What Spark takes, and a reader of names may stumble over: none is doubted.
TAKEN = """
SELECT timestampadd(HOUR, 1, ts), extract(YEAR FROM ts), datediff(DAY, ts, ts), trim(BOTH 'x' FROM s) FROM t
SELECT transform(array(a), x -> transform(array(x), y -> x + y + a)) FROM t
SELECT aggregate(array(a), 0, (acc, x) -> acc + x, acc -> acc * 2) FROM t
SELECT sum(a) OVER w FROM t WINDOW w AS (PARTITION BY b ORDER BY ts)
SELECT * EXCEPT (a) FROM t ORDER BY ALL
SELECT a + 1 AS z, z + 1 AS y FROM t
SELECT a AS z FROM t GROUP BY z HAVING z > 1 ORDER BY z
SELECT count(*), a FROM t GROUP BY ALL
SELECT a, item FROM t LATERAL VIEW explode(array(b)) e AS item
SELECT a, e.item FROM t LATERAL VIEW OUTER explode(array(b)) e AS item
SELECT x, y FROM VALUES (1, 2) AS v(x, y)
SELECT col1 FROM VALUES (1, 2)
SELECT id FROM range(10)
SELECT z.b FROM t, LATERAL (SELECT u.b FROM u WHERE u.a = t.a) z
SELECT d FROM (SELECT a AS d FROM t) CROSS JOIN (SELECT b AS e FROM u)
SELECT w.k FROM (SELECT a, b FROM t) AS w(k, l)
SELECT k FROM t AS w(k, l, m, n, o, p)
WITH W AS (SELECT a AS k FROM t) SELECT k FROM w
WITH w(k) AS (SELECT a FROM t) SELECT k FROM w
WITH w AS (SELECT a FROM t) SELECT x.k FROM w AS x(k)
WITH w AS (SELECT a AS k FROM t), v AS (SELECT k + 1 AS l FROM w) SELECT l, k FROM v, w
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r
SELECT a FROM t UNION SELECT b FROM u ORDER BY a
SELECT * FROM (SELECT a, b FROM t) PIVOT (sum(a) FOR b IN (1, 2))
SELECT `1` FROM (SELECT a, b FROM t) PIVOT (sum(a) FOR b IN (1, 2))
SELECT kind, amount FROM (SELECT a, b FROM t) UNPIVOT (amount FOR kind IN (a, b))
SELECT st.f, t.st.f, st.g.h FROM t
SELECT `count(1)` FROM (SELECT count(1) FROM t)
SELECT a FROM (SELECT CAST(a AS BIGINT) FROM t)
SELECT f FROM (SELECT st.f FROM t)
SELECT col FROM (SELECT explode(array(a)) FROM t)
SELECT p, c FROM (SELECT posexplode(array(a)) AS (p, c) FROM t)
SELECT t.* FROM t LEFT SEMI JOIN u ON t.a = u.a
SELECT a FROM t LEFT ANTI JOIN u USING (a)
SELECT a FROM t NATURAL JOIN u
SELECT (SELECT max(u.b) FROM u WHERE u.a = t.a) FROM t
SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND t.b > 1)
SELECT a FROM t WHERE EXISTS (SELECT 1 FROM (SELECT b FROM u WHERE u.a = t.a) q)
SELECT a FROM t WHERE a IN (SELECT b FROM u WHERE ts IS NOT NULL)
SELECT A, T.B FROM t
SELECT first(a) IGNORE NULLS, percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM t
SELECT current_date, current_timestamp, a FROM t
SELECT count(DISTINCT a, b) FILTER (WHERE a > 1) FROM t
SELECT window(ts, '1 minute').start FROM t
SELECT a, grouping(a) FROM t GROUP BY GROUPING SETS ((a), ())
SELECT s.a FROM t TABLESAMPLE (10 PERCENT) s
SELECT /*+ BROADCAST(x) */ a FROM t x
SELECT q.a FROM (t AS q JOIN u ON q.a = u.a)
SELECT named_struct('a', 1).a, map('k', a)['k'] FROM t
SELECT inline(array(struct(a, b))) FROM t
SELECT m FROM (SELECT a AS m FROM t UNION ALL SELECT b FROM u) WHERE m > 1
SELECT max(m) FROM (SELECT count(*) AS m FROM t GROUP BY a HAVING count(*) > 1)
"""
COLUMNS = {"t": ("ts", "a", "b", "s", "st"), "u": ("ts", "a", "b")}


@pytest.mark.parametrize("query", TAKEN.strip().splitlines())
def test_what_spark_takes_is_not_doubted(query: str) -> None:
    tree = parse_query(Fragment(query))
    assert unknown_column(tree, lambda table: COLUMNS.get(table.name.lower()), ()) is None
    assert unknown_function(tree, tree) is None
