-- What PostgreSQL's clients read of a database: its system tables over the lake's, and its functions.
-- Tables that a lake has nothing for are there and empty.
CREATE SCHEMA pg;
CREATE SCHEMA info;

CREATE TABLE pg.pg_namespace (oid BIGINT, nspname VARCHAR, nspowner BIGINT, nspacl VARCHAR[]);
CREATE TABLE pg.pg_class (
    oid BIGINT, relname VARCHAR, relnamespace BIGINT, relkind VARCHAR, reltype BIGINT DEFAULT 0,
    reloftype BIGINT DEFAULT 0, relowner BIGINT DEFAULT 10, relam BIGINT DEFAULT 2,
    relfilenode BIGINT DEFAULT 0, reltablespace BIGINT DEFAULT 0, relpages INTEGER DEFAULT 0,
    reltuples REAL DEFAULT -1, relallvisible INTEGER DEFAULT 0, reltoastrelid BIGINT DEFAULT 0,
    relhasindex BOOLEAN DEFAULT false, relisshared BOOLEAN DEFAULT false, relpersistence VARCHAR DEFAULT 'p',
    relnatts SMALLINT DEFAULT 0, relchecks SMALLINT DEFAULT 0, relhasrules BOOLEAN DEFAULT false,
    relhastriggers BOOLEAN DEFAULT false, relhassubclass BOOLEAN DEFAULT false,
    relrowsecurity BOOLEAN DEFAULT false, relforcerowsecurity BOOLEAN DEFAULT false,
    relispopulated BOOLEAN DEFAULT true, relreplident VARCHAR DEFAULT 'n',
    relispartition BOOLEAN DEFAULT false, relrewrite BIGINT DEFAULT 0, relacl VARCHAR[],
    reloptions VARCHAR[], relpartbound VARCHAR,
    relfrozenxid BIGINT, relminmxid BIGINT
);
CREATE TABLE pg.pg_attribute (
    attrelid BIGINT, attname VARCHAR, atttypid BIGINT, attnum SMALLINT, atttypmod INTEGER DEFAULT -1,
    attlen SMALLINT DEFAULT -1, attstattarget INTEGER DEFAULT -1, attndims INTEGER DEFAULT 0,
    attcacheoff INTEGER DEFAULT -1, attbyval BOOLEAN DEFAULT false, attalign VARCHAR DEFAULT 'i',
    attstorage VARCHAR DEFAULT 'p', attcompression VARCHAR DEFAULT '', attnotnull BOOLEAN DEFAULT false,
    atthasdef BOOLEAN DEFAULT false, atthasmissing BOOLEAN DEFAULT false, attidentity VARCHAR DEFAULT '',
    attgenerated VARCHAR DEFAULT '', attisdropped BOOLEAN DEFAULT false, attislocal BOOLEAN DEFAULT true,
    attinhcount INTEGER DEFAULT 0, attcollation BIGINT DEFAULT 0, attacl VARCHAR[], attoptions VARCHAR[],
    attfdwoptions VARCHAR[],
    attmissingval VARCHAR
);
CREATE TABLE pg.pg_type (
    oid BIGINT, typname VARCHAR, words VARCHAR, typcategory VARCHAR, typlen SMALLINT, typelem BIGINT,
    typarray BIGINT, typnamespace BIGINT DEFAULT 11, typowner BIGINT DEFAULT 10, typbyval BOOLEAN DEFAULT false,
    typtype VARCHAR DEFAULT 'b', typispreferred BOOLEAN DEFAULT false, typisdefined BOOLEAN DEFAULT true,
    typdelim VARCHAR DEFAULT ',', typrelid BIGINT DEFAULT 0, typsubscript VARCHAR DEFAULT '-',
    typinput VARCHAR DEFAULT '', typoutput VARCHAR DEFAULT '', typreceive VARCHAR DEFAULT '',
    typalign VARCHAR DEFAULT 'i', typstorage VARCHAR DEFAULT 'p', typnotnull BOOLEAN DEFAULT false,
    typbasetype BIGINT DEFAULT 0, typtypmod INTEGER DEFAULT -1, typndims INTEGER DEFAULT 0,
    typcollation BIGINT DEFAULT 0, typdefaultbin VARCHAR, typdefault VARCHAR, typacl VARCHAR[],
    typsend VARCHAR, typmodin VARCHAR, typmodout VARCHAR, typanalyze VARCHAR
);
CREATE TABLE pg.pg_description (objoid BIGINT, classoid BIGINT, objsubid INTEGER, description VARCHAR);
CREATE TABLE pg.pg_database (
    oid BIGINT, datname VARCHAR, datdba BIGINT DEFAULT 10, encoding INTEGER DEFAULT 6,
    datlocprovider VARCHAR DEFAULT 'c', datistemplate BOOLEAN DEFAULT false, datallowconn BOOLEAN DEFAULT true,
    datconnlimit INTEGER DEFAULT -1, dattablespace BIGINT DEFAULT 1663, datcollate VARCHAR DEFAULT 'C',
    datctype VARCHAR DEFAULT 'C', daticulocale VARCHAR, datcollversion VARCHAR, datacl VARCHAR[],
    datfrozenxid BIGINT, datminmxid BIGINT
);
CREATE TABLE pg.pg_roles (
    oid BIGINT, rolname VARCHAR, rolsuper BOOLEAN DEFAULT false, rolinherit BOOLEAN DEFAULT true,
    rolcreaterole BOOLEAN DEFAULT false, rolcreatedb BOOLEAN DEFAULT false, rolcanlogin BOOLEAN DEFAULT true,
    rolreplication BOOLEAN DEFAULT false, rolconnlimit INTEGER DEFAULT -1, rolpassword VARCHAR,
    rolvaliduntil TIMESTAMPTZ, rolbypassrls BOOLEAN DEFAULT false, rolconfig VARCHAR[]
);
CREATE VIEW pg.pg_authid AS FROM pg.pg_roles;
CREATE VIEW pg.pg_user AS
    SELECT rolname AS usename, oid AS usesysid, rolcreatedb AS usecreatedb, rolsuper AS usesuper FROM pg.pg_roles;
CREATE TABLE pg.pg_settings (
    name VARCHAR, setting VARCHAR, reset_val VARCHAR, unit VARCHAR, category VARCHAR, short_desc VARCHAR,
    context VARCHAR, vartype VARCHAR, source VARCHAR, extra_desc VARCHAR, min_val VARCHAR, max_val VARCHAR,
    enumvals VARCHAR[], boot_val VARCHAR, sourcefile VARCHAR, sourceline INTEGER, pending_restart BOOLEAN
);
CREATE VIEW pg.pg_tables AS
    SELECT n.nspname AS schemaname, c.relname AS tablename, 'lakestream' AS tableowner,
        NULL::VARCHAR AS tablespace, false AS hasindexes, false AS hasrules, false AS hastriggers,
        false AS rowsecurity
    FROM pg.pg_class c JOIN pg.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r';

CREATE TABLE pg.pg_am (oid BIGINT, amname VARCHAR, amhandler VARCHAR, amtype VARCHAR);
INSERT INTO pg.pg_am VALUES (2, 'heap', 'heap_tableam_handler', 't');
CREATE TABLE pg.pg_views (schemaname VARCHAR, viewname VARCHAR, viewowner VARCHAR, definition VARCHAR);
CREATE TABLE pg.pg_matviews (schemaname VARCHAR, matviewname VARCHAR, definition VARCHAR);
CREATE TABLE pg.pg_attrdef (oid BIGINT, adrelid BIGINT, adnum SMALLINT, adbin VARCHAR, adsrc VARCHAR);
CREATE TABLE pg.pg_index (
    indexrelid BIGINT, indrelid BIGINT, indnatts SMALLINT, indnkeyatts SMALLINT, indisunique BOOLEAN,
    indnullsnotdistinct BOOLEAN, indisprimary BOOLEAN, indisexclusion BOOLEAN, indimmediate BOOLEAN,
    indisclustered BOOLEAN, indisvalid BOOLEAN, indisready BOOLEAN, indislive BOOLEAN, indisreplident BOOLEAN,
    indkey SMALLINT[], indcollation BIGINT[], indclass BIGINT[], indoption SMALLINT[], indexprs VARCHAR,
    indpred VARCHAR,
    indcheckxmin BOOLEAN
);
CREATE TABLE pg.pg_constraint (
    oid BIGINT, conname VARCHAR, connamespace BIGINT, contype VARCHAR, condeferrable BOOLEAN,
    condeferred BOOLEAN, convalidated BOOLEAN, conrelid BIGINT, contypid BIGINT, conindid BIGINT,
    conparentid BIGINT, confrelid BIGINT, confupdtype VARCHAR, confdeltype VARCHAR, confmatchtype VARCHAR,
    conislocal BOOLEAN, coninhcount INTEGER, connoinherit BOOLEAN, conkey SMALLINT[], confkey SMALLINT[],
    conpfeqop BIGINT[], conbin VARCHAR,
    conppeqop BIGINT[], conffeqop BIGINT[], confdelsetcols SMALLINT[], conexclop BIGINT[]
);
CREATE TABLE pg.pg_inherits (
    inhrelid BIGINT, inhparent BIGINT, inhseqno INTEGER, inhdetachpending BOOLEAN
);
CREATE TABLE pg.pg_partitioned_table (
    partrelid BIGINT, partstrat VARCHAR, partnatts SMALLINT, partdefid BIGINT, partattrs SMALLINT[],
    partclass BIGINT[], partcollation BIGINT[], partexprs VARCHAR
);
CREATE TABLE pg.pg_rewrite (
    oid BIGINT, rulename VARCHAR, ev_class BIGINT, ev_type VARCHAR, ev_enabled VARCHAR, is_instead BOOLEAN,
    ev_qual VARCHAR, ev_action VARCHAR
);
CREATE TABLE pg.pg_trigger (
    oid BIGINT, tgrelid BIGINT, tgname VARCHAR, tgfoid BIGINT, tgtype SMALLINT, tgenabled VARCHAR,
    tgisinternal BOOLEAN, tgconstraint BIGINT, tgparentid BIGINT, tgconstrrelid BIGINT,
    tgconstrindid BIGINT, tgdeferrable BOOLEAN, tginitdeferred BOOLEAN, tgnargs SMALLINT, tgattr SMALLINT[],
    tgargs BLOB, tgqual VARCHAR, tgoldtable VARCHAR, tgnewtable VARCHAR
);
CREATE TABLE pg.pg_policy (
    oid BIGINT, polname VARCHAR, polrelid BIGINT, polcmd VARCHAR, polpermissive BOOLEAN, polroles BIGINT[],
    polqual VARCHAR, polwithcheck VARCHAR
);
CREATE TABLE pg.pg_proc (
    oid BIGINT, proname VARCHAR, pronamespace BIGINT, proowner BIGINT, prolang BIGINT, prokind VARCHAR,
    prorettype BIGINT, proretset BOOLEAN, pronargs SMALLINT, proargtypes BIGINT[], proallargtypes BIGINT[],
    proargmodes VARCHAR[], proargnames VARCHAR[], prosrc VARCHAR, proisstrict BOOLEAN, provolatile VARCHAR,
    procost REAL, prorows REAL, provariadic BIGINT, prosupport VARCHAR, prosecdef BOOLEAN,
    proleakproof BOOLEAN, proparallel VARCHAR, pronargdefaults SMALLINT, proargdefaults VARCHAR,
    protrftypes BIGINT[], probin VARCHAR, prosqlbody VARCHAR, proconfig VARCHAR[], proacl VARCHAR[]
);
CREATE TABLE pg.pg_depend (
    classid BIGINT, objid BIGINT, objsubid INTEGER, refclassid BIGINT, refobjid BIGINT, refobjsubid INTEGER,
    deptype VARCHAR
);
CREATE TABLE pg.pg_tablespace (
    oid BIGINT, spcname VARCHAR, spcowner BIGINT, spcoptions VARCHAR[], spcacl VARCHAR[]
);
INSERT INTO pg.pg_tablespace (oid, spcname) VALUES (1663, 'pg_default');
CREATE TABLE pg.pg_extension (
    oid BIGINT, extname VARCHAR, extnamespace BIGINT, extversion VARCHAR, extconfig BIGINT[],
    extowner BIGINT, extrelocatable BOOLEAN, extcondition VARCHAR[]
);
CREATE TABLE pg.pg_available_extensions (name VARCHAR, default_version VARCHAR, installed_version VARCHAR);
CREATE TABLE pg.pg_enum (oid BIGINT, enumtypid BIGINT, enumsortorder REAL, enumlabel VARCHAR);
CREATE TABLE pg.pg_range (
    rngtypid BIGINT, rngsubtype BIGINT, rngmultitypid BIGINT, rngcollation BIGINT, rngsubopc BIGINT,
    rngcanonical VARCHAR, rngsubdiff VARCHAR
);
CREATE TABLE pg.pg_sequence (
    seqrelid BIGINT, seqtypid BIGINT, seqstart BIGINT, seqincrement BIGINT, seqmax BIGINT, seqmin BIGINT,
    seqcache BIGINT, seqcycle BOOLEAN
);
CREATE TABLE pg.pg_collation (
    oid BIGINT, collname VARCHAR, collnamespace BIGINT, collencoding INTEGER, collowner BIGINT,
    collprovider VARCHAR, collisdeterministic BOOLEAN, collcollate VARCHAR, collctype VARCHAR,
    colliculocale VARCHAR, collversion VARCHAR
);
CREATE TABLE pg.pg_opclass (
    oid BIGINT, opcname VARCHAR, opcdefault BOOLEAN, opcmethod BIGINT, opcnamespace BIGINT, opcowner BIGINT,
    opcfamily BIGINT, opcintype BIGINT, opckeytype BIGINT
);
CREATE TABLE pg.pg_language (
    oid BIGINT, lanname VARCHAR, lanowner BIGINT, lanispl BOOLEAN, lanpltrusted BOOLEAN,
    lanplcallfoid BIGINT, laninline BIGINT, lanvalidator BIGINT, lanacl VARCHAR[]
);
CREATE TABLE pg.pg_event_trigger (
    oid BIGINT, evtname VARCHAR, evtevent VARCHAR, evtowner BIGINT, evtfoid BIGINT, evtenabled VARCHAR,
    evttags VARCHAR[]
);
CREATE TABLE pg.pg_foreign_table (ftrelid BIGINT, ftserver BIGINT, ftoptions VARCHAR[]);
CREATE TABLE pg.pg_foreign_server (
    oid BIGINT, srvname VARCHAR, srvowner BIGINT, srvfdw BIGINT, srvtype VARCHAR, srvversion VARCHAR,
    srvacl VARCHAR[], srvoptions VARCHAR[]
);
CREATE TABLE pg.pg_foreign_data_wrapper (
    oid BIGINT, fdwname VARCHAR, fdwowner BIGINT, fdwhandler BIGINT, fdwvalidator BIGINT, fdwacl VARCHAR[],
    fdwoptions VARCHAR[]
);
CREATE TABLE pg.pg_statistic_ext (
    oid BIGINT, stxrelid BIGINT, stxname VARCHAR, stxnamespace BIGINT, stxowner BIGINT, stxkeys SMALLINT[],
    stxstattarget INTEGER, stxkind VARCHAR[],
    stxexprs VARCHAR
);
CREATE TABLE pg.pg_publication (
    oid BIGINT, pubname VARCHAR, puballtables BOOLEAN, pubowner BIGINT, pubinsert BOOLEAN,
    pubupdate BOOLEAN, pubdelete BOOLEAN, pubtruncate BOOLEAN, pubviaroot BOOLEAN
);
CREATE TABLE pg.pg_publication_rel (
    prrelid BIGINT, prpubid BIGINT, prqual VARCHAR, prattrs SMALLINT[], oid BIGINT
);
CREATE TABLE pg.pg_publication_namespace (pnpubid BIGINT, pnnspid BIGINT, oid BIGINT);
CREATE TABLE pg.pg_shdescription (objoid BIGINT, classoid BIGINT, description VARCHAR);
CREATE TABLE pg.pg_auth_members (roleid BIGINT, member BIGINT, admin_option BOOLEAN, grantor BIGINT);
CREATE TABLE pg.pg_stat_activity (pid INTEGER, datname VARCHAR, usename VARCHAR, query VARCHAR, state VARCHAR);
CREATE TABLE pg.pg_cursors (
    name VARCHAR, statement VARCHAR, is_holdable BOOLEAN, is_binary BOOLEAN, is_scrollable BOOLEAN,
    creation_time TIMESTAMPTZ
);
CREATE TABLE pg.pg_locks (
    locktype VARCHAR, database BIGINT, relation BIGINT, virtualtransaction VARCHAR, pid INTEGER, mode VARCHAR,
    granted BOOLEAN
);
CREATE TABLE pg.pg_sequences (schemaname VARCHAR, sequencename VARCHAR, sequenceowner VARCHAR, last_value BIGINT);
CREATE TABLE pg.pg_indexes (schemaname VARCHAR, tablename VARCHAR, indexname VARCHAR, indexdef VARCHAR);
CREATE TABLE pg.pg_rules (schemaname VARCHAR, tablename VARCHAR, rulename VARCHAR, definition VARCHAR);
CREATE TABLE pg.pg_aggregate (
    aggfnoid VARCHAR, aggkind VARCHAR, aggnumdirectargs SMALLINT, aggtransfn VARCHAR, aggfinalfn VARCHAR,
    aggcombinefn VARCHAR, aggserialfn VARCHAR, aggdeserialfn VARCHAR, aggmtransfn VARCHAR,
    aggminvtransfn VARCHAR, aggmfinalfn VARCHAR, aggfinalextra BOOLEAN, aggmfinalextra BOOLEAN,
    aggfinalmodify VARCHAR, aggmfinalmodify VARCHAR, aggsortop BIGINT, aggtranstype BIGINT,
    aggtransspace INTEGER, aggmtranstype BIGINT, aggmtransspace INTEGER, agginitval VARCHAR,
    aggminitval VARCHAR
);
CREATE TABLE pg.pg_amop (
    oid BIGINT, amopfamily BIGINT, amoplefttype BIGINT, amoprighttype BIGINT, amopstrategy SMALLINT,
    amoppurpose VARCHAR, amopopr BIGINT, amopmethod BIGINT, amopsortfamily BIGINT
);
CREATE TABLE pg.pg_amproc (
    oid BIGINT, amprocfamily BIGINT, amproclefttype BIGINT, amprocrighttype BIGINT, amprocnum SMALLINT,
    amproc VARCHAR
);
CREATE TABLE pg.pg_cast (
    oid BIGINT, castsource BIGINT, casttarget BIGINT, castfunc BIGINT, castcontext VARCHAR,
    castmethod VARCHAR
);
CREATE TABLE pg.pg_conversion (
    oid BIGINT, conname VARCHAR, connamespace BIGINT, conowner BIGINT, conforencoding INTEGER,
    contoencoding INTEGER, conproc VARCHAR, condefault BOOLEAN
);
CREATE TABLE pg.pg_db_role_setting (setdatabase BIGINT, setrole BIGINT, setconfig VARCHAR[]);
CREATE TABLE pg.pg_default_acl (
    oid BIGINT, defaclrole BIGINT, defaclnamespace BIGINT, defaclobjtype VARCHAR, defaclacl VARCHAR[]
);
CREATE TABLE pg.pg_group (groname VARCHAR, grosysid BIGINT, grolist BIGINT[]);
CREATE TABLE pg.pg_init_privs (
    objoid BIGINT, classoid BIGINT, objsubid INTEGER, privtype VARCHAR, initprivs VARCHAR[]
);
CREATE TABLE pg.pg_largeobject (loid BIGINT, pageno INTEGER, data BLOB);
CREATE TABLE pg.pg_largeobject_metadata (oid BIGINT, lomowner BIGINT, lomacl VARCHAR[]);
CREATE TABLE pg.pg_operator (
    oid BIGINT, oprname VARCHAR, oprnamespace BIGINT, oprowner BIGINT, oprkind VARCHAR, oprcanmerge BOOLEAN,
    oprcanhash BOOLEAN, oprleft BIGINT, oprright BIGINT, oprresult BIGINT, oprcom BIGINT, oprnegate BIGINT,
    oprcode VARCHAR, oprrest VARCHAR, oprjoin VARCHAR
);
CREATE TABLE pg.pg_opfamily (
    oid BIGINT, opfmethod BIGINT, opfname VARCHAR, opfnamespace BIGINT, opfowner BIGINT
);
CREATE TABLE pg.pg_parameter_acl (oid BIGINT, parname VARCHAR, paracl VARCHAR[]);
CREATE TABLE pg.pg_prepared_statements (
    name VARCHAR, statement VARCHAR, prepare_time TIMESTAMPTZ, from_sql BOOLEAN
);
CREATE TABLE pg.pg_prepared_xacts (
    transaction BIGINT, gid VARCHAR, prepared TIMESTAMPTZ, owner VARCHAR, database VARCHAR
);
CREATE TABLE pg.pg_publication_tables (pubname VARCHAR, schemaname VARCHAR, tablename VARCHAR);
CREATE TABLE pg.pg_replication_origin (roident BIGINT, roname VARCHAR);
CREATE TABLE pg.pg_seclabel (
    objoid BIGINT, classoid BIGINT, objsubid INTEGER, provider VARCHAR, label VARCHAR
);
CREATE TABLE pg.pg_shdepend (
    dbid BIGINT, classid BIGINT, objid BIGINT, objsubid INTEGER, refclassid BIGINT, refobjid BIGINT,
    deptype VARCHAR
);
CREATE TABLE pg.pg_shseclabel (objoid BIGINT, classoid BIGINT, provider VARCHAR, label VARCHAR);
CREATE TABLE pg.pg_statistic (
    starelid BIGINT, staattnum SMALLINT, stainherit BOOLEAN, stanullfrac REAL, stawidth INTEGER,
    stadistinct REAL, stakind1 SMALLINT, stakind2 SMALLINT, stakind3 SMALLINT, stakind4 SMALLINT,
    stakind5 SMALLINT, staop1 BIGINT, staop2 BIGINT, staop3 BIGINT, staop4 BIGINT, staop5 BIGINT,
    stacoll1 BIGINT, stacoll2 BIGINT, stacoll3 BIGINT, stacoll4 BIGINT, stacoll5 BIGINT, stanumbers1 REAL[],
    stanumbers2 REAL[], stanumbers3 REAL[], stanumbers4 REAL[], stanumbers5 REAL[], stavalues1 VARCHAR,
    stavalues2 VARCHAR, stavalues3 VARCHAR, stavalues4 VARCHAR, stavalues5 VARCHAR
);
CREATE TABLE pg.pg_statistic_ext_data (
    stxoid BIGINT, stxdinherit BOOLEAN, stxdndistinct VARCHAR, stxddependencies VARCHAR, stxdmcv VARCHAR,
    stxdexpr VARCHAR
);
CREATE TABLE pg.pg_stats (
    schemaname VARCHAR, tablename VARCHAR, attname VARCHAR, inherited BOOLEAN, null_frac REAL,
    avg_width INTEGER, n_distinct REAL
);
CREATE TABLE pg.pg_subscription (
    oid BIGINT, subdbid BIGINT, subskiplsn VARCHAR, subname VARCHAR, subowner BIGINT, subenabled BOOLEAN,
    subbinary BOOLEAN, substream BOOLEAN, subtwophasestate VARCHAR, subdisableonerr BOOLEAN,
    subconninfo VARCHAR, subslotname VARCHAR, subsynccommit VARCHAR, subpublications VARCHAR[]
);
CREATE TABLE pg.pg_subscription_rel (srsubid BIGINT, srrelid BIGINT, srsubstate VARCHAR, srsublsn VARCHAR);
CREATE TABLE pg.pg_transform (
    oid BIGINT, trftype BIGINT, trflang BIGINT, trffromsql VARCHAR, trftosql VARCHAR
);
CREATE TABLE pg.pg_ts_config (
    oid BIGINT, cfgname VARCHAR, cfgnamespace BIGINT, cfgowner BIGINT, cfgparser BIGINT
);
CREATE TABLE pg.pg_ts_config_map (mapcfg BIGINT, maptokentype INTEGER, mapseqno INTEGER, mapdict BIGINT);
CREATE TABLE pg.pg_ts_dict (
    oid BIGINT, dictname VARCHAR, dictnamespace BIGINT, dictowner BIGINT, dicttemplate BIGINT,
    dictinitoption VARCHAR
);
CREATE TABLE pg.pg_ts_parser (
    oid BIGINT, prsname VARCHAR, prsnamespace BIGINT, prsstart VARCHAR, prstoken VARCHAR, prsend VARCHAR,
    prsheadline VARCHAR, prslextype VARCHAR
);
CREATE TABLE pg.pg_ts_template (
    oid BIGINT, tmplname VARCHAR, tmplnamespace BIGINT, tmplinit VARCHAR, tmpllexize VARCHAR
);
CREATE TABLE pg.pg_user_mapping (oid BIGINT, umuser BIGINT, umserver BIGINT, umoptions VARCHAR[]);
CREATE TABLE pg.pg_user_mappings (
    umid BIGINT, srvid BIGINT, srvname VARCHAR, umuser BIGINT, usename VARCHAR, umoptions VARCHAR[]
);
CREATE VIEW pg.pg_stat_user_tables AS
    SELECT c.oid AS relid, n.nspname AS schemaname, c.relname, NULL::BIGINT AS seq_scan,
        NULL::BIGINT AS n_live_tup, NULL::BIGINT AS n_dead_tup, NULL::TIMESTAMPTZ AS last_analyze
    FROM pg.pg_class c JOIN pg.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r';
CREATE VIEW pg.pg_stat_all_tables AS FROM pg.pg_stat_user_tables;

CREATE VIEW info.schemata AS
    SELECT (SELECT datname FROM pg.pg_database) AS catalog_name, nspname AS schema_name,
        'lakestream' AS schema_owner
    FROM pg.pg_namespace;
CREATE VIEW info.tables AS
    SELECT (SELECT datname FROM pg.pg_database) AS table_catalog, n.nspname AS table_schema,
        c.relname AS table_name, 'BASE TABLE' AS table_type, 'YES' AS is_insertable_into, 'NO' AS is_typed
    FROM pg.pg_class c JOIN pg.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r';
CREATE VIEW info.columns AS
    SELECT (SELECT datname FROM pg.pg_database) AS table_catalog, n.nspname AS table_schema,
        c.relname AS table_name, a.attname AS column_name, a.attnum::INTEGER AS ordinal_position,
        NULL::VARCHAR AS column_default, 'YES' AS is_nullable,
        CASE t.typcategory WHEN 'A' THEN 'ARRAY' ELSE t.words END AS data_type,
        NULL::INTEGER AS character_maximum_length,
        CASE WHEN t.typname = 'numeric' THEN ((a.atttypmod - 4) >> 16)::INTEGER END AS numeric_precision,
        CASE WHEN t.typname = 'numeric' THEN ((a.atttypmod - 4) & 65535)::INTEGER END AS numeric_scale,
        CASE t.typcategory WHEN 'D' THEN 6 END AS datetime_precision,
        'pg_catalog' AS udt_schema, t.typname AS udt_name, 'NO' AS is_identity, 'NEVER' AS is_generated,
        'YES' AS is_updatable
    FROM pg.pg_attribute a
    JOIN pg.pg_class c ON c.oid = a.attrelid JOIN pg.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg.pg_type t ON t.oid = a.atttypid;
CREATE TABLE info.views (
    table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, view_definition VARCHAR
);
CREATE TABLE info.table_constraints (
    constraint_catalog VARCHAR, constraint_schema VARCHAR, constraint_name VARCHAR, table_catalog VARCHAR,
    table_schema VARCHAR, table_name VARCHAR, constraint_type VARCHAR
);
CREATE TABLE info.key_column_usage (
    constraint_catalog VARCHAR, constraint_schema VARCHAR, constraint_name VARCHAR, table_catalog VARCHAR,
    table_schema VARCHAR, table_name VARCHAR, column_name VARCHAR, ordinal_position INTEGER,
    position_in_unique_constraint INTEGER
);
CREATE TABLE info.referential_constraints (
    constraint_catalog VARCHAR, constraint_schema VARCHAR, constraint_name VARCHAR,
    unique_constraint_schema VARCHAR, unique_constraint_name VARCHAR
);
CREATE VIEW info.table_privileges AS
    SELECT 'lakestream' AS grantor, (SELECT rolname FROM pg.pg_roles) AS grantee, table_catalog, table_schema,
        table_name, privilege_type, 'NO' AS is_grantable, 'NO' AS with_hierarchy
    FROM info.tables, (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS every(privilege_type);
CREATE VIEW info.role_table_grants AS FROM info.table_privileges;
CREATE VIEW info.column_privileges AS
    SELECT p.grantor, p.grantee, p.table_catalog, p.table_schema, p.table_name, c.column_name, p.privilege_type,
        p.is_grantable
    FROM info.table_privileges p JOIN info.columns c USING (table_schema, table_name);
CREATE VIEW info.role_column_grants AS FROM info.column_privileges;
CREATE TABLE info.routine_privileges (specific_schema VARCHAR, specific_name VARCHAR, privilege_type VARCHAR);
CREATE TABLE info.sequences (sequence_catalog VARCHAR, sequence_schema VARCHAR, sequence_name VARCHAR);
CREATE TABLE info.triggers (trigger_catalog VARCHAR, trigger_schema VARCHAR, trigger_name VARCHAR);
CREATE TABLE info.constraint_column_usage (
    table_catalog VARCHAR, table_schema VARCHAR, table_name VARCHAR, column_name VARCHAR,
    constraint_schema VARCHAR, constraint_name VARCHAR
);
CREATE TABLE info.check_constraints (constraint_schema VARCHAR, constraint_name VARCHAR, check_clause VARCHAR);
CREATE TABLE info.routines (routine_catalog VARCHAR, routine_schema VARCHAR, routine_name VARCHAR);

-- What the macros below read: an argument stands among their columns, whose names are therefore no other's.
CREATE VIEW pg.ls_relations AS
    SELECT c.oid AS ls_number, c.relname AS ls_name, n.nspname AS ls_space
    FROM pg.pg_class c JOIN pg.pg_namespace n ON n.oid = c.relnamespace;
CREATE VIEW pg.ls_types AS SELECT oid AS ls_number, typname AS ls_name, words AS ls_words FROM pg.pg_type;
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
CREATE MACRO pg.regclass_number(asked) AS
    coalesce(try_cast(asked::VARCHAR AS BIGINT), pg.to_regclass(asked::VARCHAR));
CREATE MACRO pg.regtype_number(asked) AS
    coalesce(try_cast(asked::VARCHAR AS BIGINT), pg.to_regtype(asked::VARCHAR));
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
CREATE MACRO pg.pg_partition_tree(object) AS TABLE
    SELECT NULL::BIGINT AS relid, NULL::BIGINT AS parentrelid, true AS isleaf, 0 AS level WHERE false;
CREATE MACRO pg.pg_tablespace_size(object) AS NULL::BIGINT;
CREATE MACRO pg.array_remove(list, element) AS [one FOR one IN list IF one IS DISTINCT FROM element];
CREATE MACRO pg.pg_get_functiondef(object) AS NULL::VARCHAR;
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
