-- Shapes of queries for the drawn views of tests.properties.wide; tests/properties/shapes.py says how they are read.

SELECT p.k, p.v AS n FROM {a} p $how (SELECT [[by=k|g|v]], max([[of=v|id]]) AS most FROM
  [[from={a}|{b}]] $kept GROUP BY [[by]]) m ON m.most = p.[[of]] AND m.[[by]] = p.[[by]]$more;
SELECT p.g AS k, [[agg=count(*)|sum(p.v)|max(p.v)|count(DISTINCT p.v)|avg(p.v)]] AS n FROM {a} p
  [[how=JOIN|LEFT JOIN]] (SELECT k, g, count(*) AS c FROM {b} $kept GROUP BY k, g[[having=| HAVING
  count(*) > 1| HAVING max(v) > 1]]) m ON m.[[by=k|g]] = p.[[by]][[where=| WHERE coalesce(m.c, 0) < 2|
  WHERE m.c > 1| WHERE m.c IS NULL]] GROUP BY p.g;
SELECT p.k, m.n FROM {a} p [[how=JOIN|LEFT JOIN]] (SELECT x.k, y.v AS n FROM {b} x [[in=JOIN|LEFT JOIN]]
  {c} y ON y.g = x.g) m ON m.k = p.k[[more=| AND m.n > 1]];
SELECT p.k, m.n FROM {a} p [[how=JOIN|LEFT JOIN]] (SELECT [[by=k|g]], v AS n FROM {b} [[op=UNION
  ALL|UNION|EXCEPT|EXCEPT ALL|INTERSECT]] SELECT [[by]], v FROM {c}) m ON m.[[by]] = p.[[by]];
SELECT [[by=k|k|v]] AS k, [[agg=count(*)|sum(v)|max(id)]] AS n FROM (SELECT k, v, id FROM {a} [[op=UNION
  ALL|UNION]] SELECT k, v, id FROM {b}[[third=| UNION ALL SELECT k, v, id FROM {c}]]) u [[where=| WHERE v
  > 0]] GROUP BY [[by]];
SELECT [[by=k|g AS k]], v AS n FROM {a} [[op=EXCEPT|EXCEPT ALL|INTERSECT|INTERSECT ALL]] SELECT [[by]],
  [[of=v|id]] FROM {b};
SELECT p.k, p.v AS n FROM $rows WHERE [[not=|NOT ]]EXISTS (SELECT 1 FROM $inner WHERE $tied)$more;
SELECT p.k, count(*) AS n FROM $rows WHERE [[not=|NOT ]]EXISTS (SELECT 1 FROM $inner WHERE $tied)$more
  GROUP BY p.k;
SELECT p.k, p.id AS n FROM {a} p WHERE [[not=|NOT ]]EXISTS (SELECT 1 FROM {b} x WHERE x.k = p.k AND
  [[in=|NOT ]]EXISTS (SELECT 1 FROM {c} y WHERE y.g = x.g[[deep=| AND y.v > 0]]));
SELECT p.k, (SELECT [[agg=max(x.v)|count(*)|sum(x.v)|min(x.id)]] FROM $inner WHERE $tied) AS n FROM
  $rows;
SELECT p.k, p.v AS n FROM $rows WHERE p.v [[op==|>|<=]] (SELECT [[agg=max(x.v)|count(*)|avg(x.v)]] FROM
  $inner WHERE $tied);
SELECT p.g AS k, max(p.v) AS n FROM {a} p WHERE p.[[by=k|v|g]] [[not=|NOT ]]IN (SELECT [[by]] FROM
  {b}[[kept=| WHERE v > 0| WHERE v IS NOT NULL AND k IS NOT NULL AND g IS NOT NULL| GROUP BY [[by]]| GROUP
  BY [[by]] HAVING count(*) > 1| UNION SELECT [[by]] FROM {c}]]) GROUP BY p.g;
SELECT p.k, CASE WHEN p.v IN (SELECT [[of=v|id]] FROM {b}) THEN 1 WHEN p.v IS NULL THEN 2 ELSE 3 END AS
  n FROM {a} p;
SELECT p.k, p.v AS n FROM {a} p WHERE p.v IN (SELECT x.v FROM {b} x WHERE x.g = p.g[[more=| AND x.id >
  1]]);
SELECT k, count(*) AS n FROM {a} GROUP BY k HAVING count(*) > (SELECT [[agg=count(*)|min(v)]] FROM {b});
SELECT p.k, [[of=s.v|r.v|q.v|p.v]] AS n FROM {a} p LEFT JOIN {b} q ON q.k = p.k LEFT JOIN {c} r ON r.g =
  q.g[[more=| AND r.v > 1]] LEFT JOIN {a} s ON s.v = r.v AND s.id <> p.id;
SELECT [[by=q.g|r.k|s.k|coalesce(q.v, -1)]] AS k, count(*) AS n FROM {a} p LEFT JOIN {b} q ON q.k = p.k
  [[how=JOIN|LEFT JOIN]] {c} r ON r.g = q.g LEFT JOIN {b} s ON s.v = r.v GROUP BY [[by]];
SELECT k, [[of=q.v|p.v|p.v + q.v]] AS n FROM {a} p [[how=JOIN|LEFT JOIN]] {b} q USING (k);
SELECT k, [[agg=count(*)|sum(v)|count(DISTINCT v)|min(v)]] AS n FROM {a} [[where=|WHERE v > 0]] GROUP BY
  ALL;
SELECT p.g AS k, [[agg=count(q.v)|sum(p.v + q.v)|max(q.v)]] AS n FROM {a} p [[how=JOIN|LEFT JOIN]] {b} q
  ON q.k = p.k GROUP BY ALL [[having=|HAVING count(*) > 1]];
SELECT k, [[f=sum(v)|count(v)|max(v)|min(id)]] OVER (PARTITION BY [[by=k|g]] ORDER BY id ROWS BETWEEN
  [[frame=UNBOUNDED PRECEDING AND CURRENT ROW|1 PRECEDING AND 1 FOLLOWING|CURRENT ROW AND UNBOUNDED
  FOLLOWING|2 PRECEDING AND 1 PRECEDING]]) AS n FROM {a};
SELECT k, [[f=sum(v)|count(v)|max(id)]] OVER (PARTITION BY [[by=k|g]] ORDER BY v RANGE BETWEEN
  [[frame=UNBOUNDED PRECEDING AND CURRENT ROW|1 PRECEDING AND CURRENT ROW|1 PRECEDING AND 2 FOLLOWING]])
  AS n FROM {a} WHERE v IS NOT NULL;
SELECT [[f=date_trunc('DAY', p.ts)|date_trunc('HOUR', p.ts)|hour(p.ts)|minute(p.ts)]] AS k, count(*) AS
  n FROM {a} p [[how=|LEFT JOIN {b} q ON q.k = p.k|JOIN {b} q ON hour(q.ts) = hour(p.ts) AND q.v > 1]]
  GROUP BY [[f]];
SELECT p.k, hour(p.ts) AS n FROM {a} p [[how=|JOIN {b} q ON date_trunc('DAY', q.ts) = date_trunc('DAY',
  p.ts)]];
SELECT k, sum(CAST(v AS DECIMAL([[digits=6, 2|20, 4]]))) AS n FROM {a} GROUP BY k;
SELECT k, size(collect_list(v)) AS n FROM {a} GROUP BY k ## SELECT k, count(v) AS n FROM {a} GROUP BY k;
SELECT k, size(collect_set(v)) AS n FROM {a} GROUP BY k ## SELECT k, count(DISTINCT v) AS n FROM {a}
  GROUP BY k;
SELECT k, array_max(collect_list(v)) AS n FROM {a} GROUP BY k ## SELECT k, max(v) AS n FROM {a} GROUP BY
  k;
SELECT l.[[by=k|g]] AS k, [[of=l.c + coalesce(m.c, 0)|m.c|l.c - m.c|CASE WHEN m.c IS NULL THEN -1 ELSE l.c END]]
  AS n FROM (SELECT [[by]], [[left=count(*)|sum(v)|max(v)|min(id)]] AS c FROM {a} $kept GROUP BY [[by]][[having=|
  HAVING count(*) > 1]]) l [[how=JOIN|LEFT JOIN|FULL JOIN]] (SELECT [[by]], [[right=count(*)|sum(v)|max(v)|min(id)|
  count(DISTINCT v)]] AS c FROM [[from={b}|{a}]] [[of_m=|WHERE v > 0]] GROUP BY [[by]]) m ON m.[[by]] [[eq==|<=>]]
  l.[[by]];
SELECT l.k, m.c AS n FROM (SELECT k, max([[of=v|id]]) AS c FROM {a} GROUP BY k) l [[how=JOIN|LEFT JOIN]] (SELECT
  v, [[right=count(*)|max(id)|min(v)]] AS c FROM {b} GROUP BY v) m ON m.v = l.c[[more=| AND m.c > 1]];
SELECT [[by=l.c|m.c|l.g]] AS k, [[agg=count(*)|sum(m.c)|max(l.c)]] AS n FROM (SELECT g, count(*) AS c FROM {a} GROUP
  BY g) l [[how=JOIN|LEFT JOIN]] (SELECT g, max(v) AS c FROM {b} GROUP BY g) m ON m.g = l.g GROUP BY [[by]];
SELECT p.[[by=k|g]] AS k, [[agg=max(q.v)|min(q.v)|max(q.id)|max(q.v) - min(p.v)|coalesce(max(q.v), min(q.id))|max(q.ts)]]
  AS n FROM {a} p [[how=JOIN|LEFT JOIN]] {b} q ON q.[[on=k|g|v]] = p.[[on]][[more=| AND q.v > 0| AND q.id <> p.id]]
  [[where=|WHERE p.v IS NOT NULL]] GROUP BY p.[[by]] [[having=|HAVING max(q.v) > 1|HAVING count(q.v) > 0]];
SELECT q.g AS k, [[agg=max|min]](p.v) AS n FROM {a} p [[how=JOIN|LEFT JOIN]] {b} q ON q.k = p.k [[how]] {c} r ON r.g =
  q.g [[where=|WHERE r.v > 0]] GROUP BY q.g;
SELECT l.k, [[of=m.c|r.c|l.c]] AS n FROM (SELECT k, [[left=count(*)|sum(v)|max(v)]] AS c FROM {a} $kept GROUP BY k) l
  [[how=JOIN|LEFT JOIN]] (SELECT k, v, count(*) AS c FROM {b} GROUP BY k, v) m ON m.k = l.k [[also=JOIN|LEFT
  JOIN]] (SELECT k, max(id) AS c FROM {c} GROUP BY k) r ON r.k = [[on=l.k|m.k]] [[where=|WHERE l.c > 1|WHERE r.c > 2]];
WITH t AS (SELECT k, g, [[left=count(*)|sum(v)|max(v)]] AS c FROM {a} GROUP BY k, g) SELECT l.k, s.v AS n FROM t l,
  {b} s WHERE l.c > (SELECT [[agg=avg|min]](m.c) FROM t m WHERE m.[[by=g|k]] = l.[[by]]) AND s.[[by]] =
  l.[[by]][[more=| AND s.v > 0]];
SELECT [[by=l.k|l.g|m.k|l.k + m.k|l.k + p.v]] AS k, [[agg=count(*)|sum(l.c)|max(p.v)]] AS n FROM {b} p [[how=JOIN|LEFT
  JOIN]] (SELECT k, g, count(*) AS c FROM {a} GROUP BY k, g) l ON l.[[on=k|g]] = p.[[on]] [[also=JOIN|LEFT JOIN]] (SELECT
  k, v FROM {a} UNION ALL SELECT k, v FROM {c}) m ON m.k = [[of=p.k|l.k]] GROUP BY [[by]];
SELECT l.k, l.c AS n FROM (SELECT k, g, v, row_number() OVER (PARTITION BY k, g ORDER BY v, id) AS c FROM {a}) l,
  (SELECT k, g, v, row_number() OVER (PARTITION BY k, g ORDER BY v, id) AS c FROM [[from={a}|{b}]]) m WHERE m.k = l.k
  AND m.g = l.g AND m.c = l.c + 1;
SELECT k, max_by(v, [[by=g|id % 2|p.ts]]) [[of=|FILTER (WHERE v > 0)]] AS n FROM {a} p GROUP BY k ## SELECT k, last(v
  ORDER BY [[by]] NULLS FIRST, v NULLS FIRST) FILTER (WHERE [[by]] IS NOT NULL AND ('[[of]]' = '' OR v > 0)) AS n FROM
  {a} p GROUP BY k;
SELECT p.g AS k, min_by(q.v, [[by=q.k|q.g|p.v]]) AS n FROM {a} p LEFT JOIN {b} q ON q.[[on=k|v]] = p.[[on]] GROUP BY
  p.g ## SELECT p.g AS k, first(q.v ORDER BY [[by]] NULLS FIRST, q.v NULLS FIRST) FILTER (WHERE [[by]] IS NOT NULL) AS
  n FROM {a} p LEFT JOIN {b} q ON q.[[on]] = p.[[on]] GROUP BY p.g;

-- Spark alone

SELECT k, x AS n FROM (SELECT k, g, v FROM {a}) PIVOT ([[agg=sum|max|count]](v) FOR g IN ('x' AS x, 'y'
  AS y)) ## SELECT k, nullif([[agg]](v) FILTER (WHERE g = 'x'), CASE '[[agg]]' WHEN 'count' THEN 0 END) AS
  n FROM {a} GROUP BY k;
SELECT k, sort_array(collect_list(v)) AS n FROM {a} GROUP BY k ## SELECT k, coalesce(list_sort(list(v)
  FILTER (WHERE v IS NOT NULL)), []) AS n FROM {a} GROUP BY k;
SELECT k, listagg(CAST(id AS STRING), ',') WITHIN GROUP (ORDER BY [[by=v|g|id]]) AS n FROM {a} GROUP BY k ## SELECT k,
  string_agg(CAST(id AS VARCHAR), ',' ORDER BY [[by]] NULLS FIRST, CAST(id AS VARCHAR)) AS n FROM {a} GROUP BY k;
SELECT k, named_struct('a', max(v), 'b', count(*)) AS n FROM {a} GROUP BY k ## SELECT k, {'a': max(v),
  'b': count(*)} AS n FROM {a} GROUP BY k;
SELECT array(v, id % 2) AS k, count(*) AS n FROM {a} GROUP BY array(v, id % 2) ## SELECT [v, id % 2] AS
  k, count(*) AS n FROM {a} GROUP BY 1;
SELECT CAST(p.ts AS TIMESTAMP_NTZ) AS k, count(*) AS n FROM {a} p GROUP BY CAST(p.ts AS TIMESTAMP_NTZ)
  ## SELECT CAST(p.ts AS TIMESTAMP) AS k, count(*) AS n FROM {a} p GROUP BY 1;
SELECT k, map('a', max(v)) AS n FROM {a} GROUP BY k ## SELECT k, MAP {'a': max(v)} AS n FROM {a} GROUP
  BY k;
SELECT CAST(p.ts AS DATE) AS k, avg(CAST(v AS DECIMAL(8, 3))) AS n FROM {a} p GROUP BY CAST(p.ts AS
  DATE);
SELECT date_trunc('[[unit=DAY|HOUR]]', from_utc_timestamp(p.ts, '[[zone=Europe/Berlin|America/New_York]]')) AS k,
  count(*) AS n FROM {a} p GROUP BY ALL ## SELECT timezone('UTC', date_trunc('[[unit]]', timezone('[[zone]]', p.ts)))
  AS k, count(*) AS n FROM {a} p GROUP BY ALL;
SELECT p.k, hour(from_utc_timestamp(p.ts, '[[zone=Europe/Berlin|America/New_York]]')) AS n FROM {a} p JOIN {b} q ON
  date_trunc('HOUR', from_utc_timestamp(q.ts, '[[zone]]')) = date_trunc('HOUR', from_utc_timestamp(p.ts, '[[zone]]'))
  ## SELECT p.k, hour(timezone('[[zone]]', p.ts)) AS n FROM {a} p JOIN {b} q ON date_trunc('HOUR',
  timezone('[[zone]]', q.ts)) = date_trunc('HOUR', timezone('[[zone]]', p.ts));
