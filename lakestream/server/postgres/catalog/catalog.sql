-- What of PostgreSQL's system tables follows from those that are filled, and its functions.
INSERT INTO pg.pg_am (oid, amname, amhandler, amtype) VALUES (2, 'heap', 0, 't');
INSERT INTO pg.pg_tablespace (oid, spcname, spcowner) VALUES (1663, 'pg_default', 10), (1664, 'pg_global', 10);
INSERT INTO pg.pg_roles BY NAME
    SELECT oid, rolname, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolconnlimit,
        '********' AS rolpassword, rolvaliduntil, rolbypassrls
    FROM pg.pg_authid;
INSERT INTO pg.pg_shadow BY NAME
    SELECT rolname AS usename, oid AS usesysid, rolcreatedb AS usecreatedb, rolsuper AS usesuper,
        rolreplication AS userepl, rolbypassrls AS usebypassrls
    FROM pg.pg_authid;
INSERT INTO pg.pg_user BY NAME
    SELECT usename, usesysid, usecreatedb, usesuper, userepl, usebypassrls, '********' AS passwd FROM pg.pg_shadow;
INSERT INTO pg.pg_tables BY NAME
    SELECT n.nspname AS schemaname, c.relname AS tablename, 'lakestream' AS tableowner, c.relhasindex AS hasindexes,
        c.relhasrules AS hasrules, c.relhastriggers AS hastriggers, c.relrowsecurity AS rowsecurity
    FROM pg.pg_class c JOIN pg.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r';
INSERT INTO pg.pg_views BY NAME
    SELECT n.nspname AS schemaname, c.relname AS viewname, 'lakestream' AS viewowner
    FROM pg.pg_class c JOIN pg.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'v';
INSERT INTO pg.pg_stat_all_tables BY NAME
    SELECT c.oid AS relid, n.nspname AS schemaname, c.relname
    FROM pg.pg_class c JOIN pg.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r';
INSERT INTO pg.pg_stat_user_tables
    FROM pg.pg_stat_all_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema');

INSERT INTO info.information_schema_catalog_name SELECT datname FROM pg.pg_database;
INSERT INTO info.enabled_roles SELECT rolname FROM pg.pg_roles;
INSERT INTO info.character_sets BY NAME
    SELECT 'UTF8' AS character_set_name, 'UCS' AS character_repertoire, 'UTF8' AS form_of_use,
        datname AS default_collate_catalog
    FROM pg.pg_database;
INSERT INTO info.schemata BY NAME
    SELECT (SELECT datname FROM pg.pg_database) AS catalog_name, nspname AS schema_name,
        'lakestream' AS schema_owner
    FROM pg.pg_namespace;
INSERT INTO info.tables BY NAME
    SELECT (SELECT datname FROM pg.pg_database) AS table_catalog, n.nspname AS table_schema,
        c.relname AS table_name, CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'BASE TABLE' END AS table_type,
        CASE c.relkind WHEN 'v' THEN 'NO' ELSE 'YES' END AS is_insertable_into, 'NO' AS is_typed
    FROM pg.pg_class c JOIN pg.pg_namespace n ON n.oid = c.relnamespace;
INSERT INTO info.views BY NAME
    SELECT table_catalog, table_schema, table_name, 'NONE' AS check_option, 'NO' AS is_updatable,
        'NO' AS is_insertable_into, 'NO' AS is_trigger_updatable, 'NO' AS is_trigger_deletable,
        'NO' AS is_trigger_insertable_into
    FROM info.tables WHERE table_type = 'VIEW';
INSERT INTO info.columns BY NAME
    SELECT (SELECT datname FROM pg.pg_database) AS table_catalog, n.nspname AS table_schema,
        c.relname AS table_name, a.attname AS column_name, a.attnum::INTEGER AS ordinal_position,
        'YES' AS is_nullable, CASE t.typcategory WHEN 'A' THEN 'ARRAY' ELSE w.ls_words END AS data_type,
        CASE WHEN t.typname IN ('text', 'varchar') THEN 1073741824 END AS character_octet_length,
        CASE t.typname WHEN 'int2' THEN 16 WHEN 'int4' THEN 32 WHEN 'int8' THEN 64 WHEN 'float4' THEN 24
            WHEN 'float8' THEN 53 WHEN 'numeric' THEN (a.atttypmod - 4) >> 16 END AS numeric_precision,
        CASE WHEN t.typname = 'numeric' THEN 10 WHEN t.typcategory = 'N' THEN 2 END AS numeric_precision_radix,
        CASE WHEN t.typname IN ('int2', 'int4', 'int8') THEN 0
            WHEN t.typname = 'numeric' THEN (a.atttypmod - 4) & 65535 END AS numeric_scale,
        CASE WHEN t.typname = 'date' THEN 0 WHEN t.typcategory IN ('D', 'T') THEN 6 END AS datetime_precision,
        (SELECT datname FROM pg.pg_database) AS udt_catalog, 'pg_catalog' AS udt_schema, t.typname AS udt_name,
        a.attnum::VARCHAR AS dtd_identifier, 'NO' AS is_self_referencing, 'NO' AS is_identity,
        'NO' AS identity_cycle, 'NEVER' AS is_generated, 'YES' AS is_updatable
    FROM pg.pg_attribute a
    JOIN pg.pg_class c ON c.oid = a.attrelid JOIN pg.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg.pg_type t ON t.oid = a.atttypid JOIN pg.ls_types w ON w.ls_number = t.oid;
INSERT INTO info.table_privileges BY NAME
    SELECT 'lakestream' AS grantor, (SELECT rolname FROM pg.pg_roles) AS grantee, table_catalog, table_schema,
        table_name, privilege_type, 'NO' AS is_grantable, CASE privilege_type WHEN 'SELECT' THEN 'YES' ELSE 'NO' END
        AS with_hierarchy
    FROM info.tables, (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS every(privilege_type)
    WHERE table_type = 'BASE TABLE';
INSERT INTO info.role_table_grants FROM info.table_privileges;
INSERT INTO info.column_privileges BY NAME
    SELECT p.grantor, p.grantee, p.table_catalog, p.table_schema, p.table_name, c.column_name, p.privilege_type,
        p.is_grantable
    FROM info.table_privileges p JOIN info.columns c USING (table_schema, table_name)
    WHERE p.privilege_type <> 'DELETE';
INSERT INTO info.role_column_grants FROM info.column_privileges;

-- What the macros below read: an argument stands among their columns, whose names are therefore no other's.
CREATE VIEW pg.ls_relations AS
    SELECT c.oid AS ls_number, c.relname AS ls_name, n.nspname AS ls_space
    FROM pg.pg_class c JOIN pg.pg_namespace n ON n.oid = c.relnamespace;
CREATE VIEW pg.ls_functions AS SELECT oid AS ls_number, proname AS ls_name FROM pg.pg_proc;
CREATE VIEW pg.ls_comments AS
    SELECT objoid AS ls_number, objsubid AS ls_part, description AS ls_text FROM pg.pg_description;

CREATE MACRO pg.format_type(kind, modifier) AS (
    SELECT ls_words || CASE
        WHEN ls_name = 'numeric' AND modifier > 4
        THEN '(' || ((modifier - 4) >> 16) || ',' || ((modifier - 4) & 65535) || ')' ELSE '' END
    FROM pg.ls_types WHERE ls_number = kind
);
CREATE MACRO pg.to_regclass(name) AS (
    SELECT ls_number FROM pg.ls_relations
    WHERE replace(name, '"', '') = ls_space || '.' || ls_name
        OR (replace(name, '"', '') = ls_name AND ls_space IN ('pg_catalog', getvariable('here')))
    LIMIT 1
);
CREATE MACRO pg.regclass_name(number) AS (
    SELECT CASE WHEN ls_space IN ('pg_catalog', getvariable('here')) THEN ls_name
        ELSE ls_space || '.' || ls_name END
    FROM pg.ls_relations WHERE ls_number = number
);
CREATE MACRO pg.to_regtype(asked) AS (
    SELECT min(ls_number) FROM pg.ls_types WHERE lower(asked) IN (ls_name, ls_words)
);
CREATE MACRO pg.regproc_name(number) AS (SELECT ls_name FROM pg.ls_functions WHERE ls_number = number);
CREATE MACRO pg.regproc_number(asked) AS coalesce(
    try_cast(asked::VARCHAR AS UINTEGER), (SELECT min(ls_number) FROM pg.ls_functions WHERE ls_name = asked::VARCHAR)
);
CREATE MACRO pg.regclass_number(asked) AS
    coalesce(try_cast(asked::VARCHAR AS UINTEGER), pg.to_regclass(asked::VARCHAR));
CREATE MACRO pg.regtype_number(asked) AS
    coalesce(try_cast(asked::VARCHAR AS UINTEGER), pg.to_regtype(asked::VARCHAR));
CREATE MACRO pg.format
    (form) AS form,
    (form, a) AS regexp_replace(form, '%[sIL]', a::VARCHAR),
    (form, a, b) AS regexp_replace(regexp_replace(form, '%[sIL]', a::VARCHAR), '%[sIL]', b::VARCHAR);
CREATE MACRO pg.regtype_name(number) AS (SELECT ls_words FROM pg.ls_types WHERE ls_number = number);
CREATE MACRO pg.obj_description
    (object) AS (SELECT ls_text FROM pg.ls_comments WHERE ls_number = object AND ls_part = 0),
    (object, kind) AS (SELECT ls_text FROM pg.ls_comments WHERE ls_number = object AND ls_part = 0);
CREATE MACRO pg.col_description(object, number) AS (
    SELECT ls_text FROM pg.ls_comments WHERE ls_number = object AND ls_part = number
);
CREATE MACRO pg.shobj_description(object, kind) AS NULL::VARCHAR;
CREATE MACRO pg.pg_advisory_unlock_all() AS NULL;
CREATE MACRO pg.pg_get_userbyid(number) AS 'lakestream';
CREATE MACRO pg.pg_encoding_to_char(number) AS 'UTF8';
CREATE MACRO pg.pg_table_is_visible(object) AS (
    SELECT ls_space IN ('pg_catalog', getvariable('here')) FROM pg.ls_relations WHERE ls_number = object
);
CREATE MACRO pg.pg_type_is_visible(object) AS true;
CREATE MACRO pg.pg_collation_is_visible(object) AS true;
CREATE MACRO pg.pg_function_is_visible(object) AS true;
CREATE MACRO pg.pg_operator_is_visible(object) AS true;
CREATE MACRO pg.pg_opclass_is_visible(object) AS true;
CREATE MACRO pg.pg_opfamily_is_visible(object) AS true;
CREATE MACRO pg.pg_conversion_is_visible(object) AS true;
CREATE MACRO pg.pg_ts_parser_is_visible(object) AS true;
CREATE MACRO pg.pg_ts_dict_is_visible(object) AS true;
CREATE MACRO pg.pg_ts_template_is_visible(object) AS true;
CREATE MACRO pg.pg_ts_config_is_visible(object) AS true;
CREATE MACRO pg.pg_statistics_obj_is_visible(object) AS true;
CREATE MACRO pg.pg_is_other_temp_schema(object) AS false;
CREATE MACRO pg.pg_my_temp_schema() AS 0;
CREATE MACRO pg.pg_is_in_recovery() AS false;
CREATE MACRO pg.pg_is_wal_replay_paused() AS false;
CREATE MACRO pg.pg_get_expr(node, object) AS NULL::VARCHAR, (node, object, pretty) AS NULL::VARCHAR;
CREATE MACRO pg.pg_get_viewdef(object) AS NULL::VARCHAR, (object, pretty) AS NULL::VARCHAR;
CREATE MACRO pg.pg_get_constraintdef(object) AS NULL::VARCHAR, (object, pretty) AS NULL::VARCHAR;
CREATE MACRO pg.pg_get_indexdef(object) AS NULL::VARCHAR, (object, number, pretty) AS NULL::VARCHAR;
CREATE MACRO pg.pg_get_function_result(object) AS NULL::VARCHAR;
CREATE MACRO pg.pg_get_function_arguments(object) AS NULL::VARCHAR;
CREATE MACRO pg.pg_get_function_identity_arguments(object) AS NULL::VARCHAR;
CREATE MACRO pg.pg_get_function_sqlbody(object) AS NULL::VARCHAR;
CREATE MACRO pg.pg_options_to_table(options) AS TABLE
    SELECT NULL::VARCHAR AS option_name, NULL::VARCHAR AS option_value WHERE false;
CREATE MACRO pg.pg_char_to_encoding(name) AS 6;
CREATE MACRO pg.getdatabaseencoding() AS 'UTF8';
CREATE MACRO pg.pg_partition_ancestors(object) AS pg.regclass_number(object);
CREATE MACRO pg.pg_partition_tree(object) AS TABLE
    SELECT NULL::UINTEGER AS relid, NULL::UINTEGER AS parentrelid, true AS isleaf, 0 AS level WHERE false;
CREATE MACRO pg.pg_tablespace_size(object) AS NULL::BIGINT;
CREATE MACRO pg.array_remove(list, element) AS [one FOR one IN list IF one IS DISTINCT FROM element];
CREATE MACRO pg.pg_get_functiondef(object) AS NULL::VARCHAR;
CREATE MACRO pg.pg_get_ruledef(object) AS NULL::VARCHAR, (object, pretty) AS NULL::VARCHAR;
CREATE MACRO pg.pg_blocking_pids(process) AS []::INTEGER[];
CREATE MACRO pg.pg_available_extensions() AS TABLE
    SELECT NULL::VARCHAR AS name, NULL::VARCHAR AS default_version, NULL::VARCHAR AS comment WHERE false;
CREATE MACRO pg.pg_get_triggerdef(object) AS NULL::VARCHAR, (object, pretty) AS NULL::VARCHAR;
CREATE MACRO pg.pg_get_statisticsobjdef_columns(object) AS NULL::VARCHAR;
CREATE MACRO pg.pg_get_partkeydef(object) AS NULL::VARCHAR;
CREATE MACRO pg.pg_get_serial_sequence(relation, name) AS NULL::VARCHAR;
CREATE MACRO pg.pg_stat_get_numscans(object) AS NULL::BIGINT;
CREATE MACRO pg.pg_relation_size(object) AS NULL::BIGINT;
CREATE MACRO pg.pg_total_relation_size(object) AS NULL::BIGINT;
CREATE MACRO pg.pg_table_size(object) AS NULL::BIGINT;
CREATE MACRO pg.pg_database_size(object) AS NULL::BIGINT;
CREATE MACRO pg.pg_size_pretty(size) AS size::VARCHAR;
CREATE MACRO pg.pg_tablespace_location(object) AS '';
CREATE MACRO pg.pg_relation_is_publishable(object) AS false;
CREATE MACRO pg.has_schema_privilege(object, kind) AS true, (role, object, kind) AS true;
CREATE MACRO pg.has_table_privilege(object, kind) AS true, (role, object, kind) AS true;
CREATE MACRO pg.has_any_column_privilege(object, kind) AS true, (role, object, kind) AS true;
CREATE MACRO pg.has_column_privilege(object, name, kind) AS true, (role, object, name, kind) AS true;
CREATE MACRO pg.has_database_privilege(object, kind) AS true, (role, object, kind) AS true;
CREATE MACRO pg.version() AS getvariable('version');
CREATE MACRO pg.current_schema() AS getvariable('here');
CREATE MACRO pg.current_database() AS (SELECT datname FROM pg.pg_database);
CREATE MACRO pg.current_catalog() AS (SELECT datname FROM pg.pg_database);
CREATE MACRO pg.current_user() AS getvariable('who');
CREATE MACRO pg.session_user() AS getvariable('who');
CREATE MACRO pg.current_schemas(implicit) AS
    CASE WHEN implicit THEN ['pg_catalog', getvariable('here')] ELSE [getvariable('here')] END;
CREATE MACRO pg.current_setting
    (asked) AS getvariable('settings')[lower(asked)],
    (asked, missing) AS getvariable('settings')[lower(asked)];
CREATE MACRO pg.set_config(asked, given, here_only) AS given;
CREATE MACRO pg.pg_backend_pid() AS getvariable('pid');
CREATE MACRO pg.array_lower(list, dimension) AS CASE WHEN len(list) > 0 THEN 1 END;
CREATE MACRO pg.array_upper(list, dimension) AS CASE WHEN len(list) > 0 THEN len(list) END;
CREATE MACRO pg._pg_expandarray(list) AS {'x': list[1], 'n': 1};
CREATE MACRO pg.quote_ident(name) AS
    CASE WHEN regexp_full_match(name, '[a-z_][a-z0-9_]*') THEN name ELSE '"' || replace(name, '"', '""') || '"' END;
CREATE MACRO pg.parse_ident(name) AS [
    CASE WHEN part[1] = '"' THEN replace(part[2:-2], '""', '"') ELSE lower(part) END
    FOR part IN regexp_extract_all(name, '"([^"]|"")+"|[^".]+')
];
CREATE MACRO pg.age(transaction) AS 1;
CREATE MACRO pg.aclexplode(rights) AS
    unnest([]::STRUCT(grantor UINTEGER, grantee UINTEGER, privilege_type VARCHAR, is_grantable BOOLEAN)[]);
CREATE MACRO pg.acldefault(kind, owner) AS []::VARCHAR[];
CREATE MACRO pg.bpchar(value) AS value::VARCHAR;
CREATE MACRO pg.host(address) AS address::VARCHAR;
CREATE MACRO pg.encode(bytes, form) AS CASE form
    WHEN 'hex' THEN lower(hex(bytes::BLOB)) WHEN 'base64' THEN base64(bytes::BLOB) ELSE bytes::VARCHAR END;
CREATE MACRO pg.to_char(instant, form) AS strftime(instant, replace(replace(replace(replace(replace(replace(replace(
    form, 'YYYY', '%Y'), 'MM', '%m'), 'DD', '%d'), 'HH24', '%H'), 'MI', '%M'), 'SS', '%S'), 'TZ', 'UTC'));
CREATE MACRO pg.substring_by(text, pattern) AS
    CASE WHEN regexp_matches(text, pattern) THEN regexp_extract(text, pattern, contains(pattern, '(')::INTEGER) END;
CREATE MACRO pg.quote_literal(value) AS '''' || replace(value::VARCHAR, '''', '''''') || '''';
CREATE MACRO pg.txid_current() AS 1;
-- DuckDB's grammar has grown out of PostgreSQL's, and so have its keywords.
CREATE MACRO pg.pg_get_keywords() AS TABLE
    SELECT keyword_name AS word, upper(keyword_category[1]) AS catcode, true AS barelabel,
        keyword_category AS catdesc, 'can be bare label' AS baredesc
    FROM duckdb_keywords();
CREATE MACRO pg.inet_server_addr() AS NULL::VARCHAR;
CREATE MACRO pg.inet_server_port() AS NULL::INTEGER;
CREATE MACRO pg.pg_postmaster_start_time() AS NULL::TIMESTAMPTZ;
CREATE MACRO pg.pg_show_all_settings() AS TABLE FROM pg.pg_settings;
