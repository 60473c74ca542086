{#- A model that is a stream: its text is what stands behind the stream's name, INTO {{ this }} included. -#}
{% materialization stream, adapter='postgres' %}
  {{ return(lakestream.made('stream', 'create or replace stream ' ~ this.include(database=false) ~ ' ' ~ sql)) }}
{% endmaterialization %}

{#- A model that is a materialized view: its text is the query. -#}
{% materialization lakestream_view, adapter='postgres' %}
  {%- set policy = config.get('refresh_policy') -%}
  {%- set by = config.get('partitioned_by', []) -%}
  {%- set clauses = (' partitioned by (' ~ by | join(', ') ~ ')' if by else '') ~ (' refresh policy ' ~ policy if policy else '') -%}
  {{ return(lakestream.made('materialized view', 'create or replace materialized view ' ~ this.include(database=false) ~ clauses ~ ' as ' ~ sql)) }}
{% endmaterialization %}

{#- Run a statement that makes a table, between the hooks; with --full-refresh what is there goes first. -#}
{% macro made(kind, text) %}
  {{ run_hooks(pre_hooks) }}
  {% if should_full_refresh() %}
    {% call statement('before') %} drop {{ kind }} if exists {{ this.include(database=false) }} {% endcall %}
    {% if kind == 'stream' %}
      {% call statement('output') %} drop table if exists {{ this.include(database=false) }} {% endcall %}
    {% endif %}
  {% endif %}
  {% call statement('main') %} {{ text }} {% endcall %}
  {% set relation = this.incorporate(type='table') %}
  {% do lakestream.comments(relation) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [relation]}) }}
{% endmacro %}

{#- What a model's descriptions say is said of its table, where persist_docs asks for it. -#}
{% macro comments(relation) %}
  {% set table = relation.include(database=false) %}
  {% if config.persist_relation_docs() and model.description %}
    {% call statement('comment') %} comment on table {{ table }} is '{{ model.description | replace("'", "''") }}' {% endcall %}
  {% endif %}
  {% if config.persist_column_docs() %}
    {% for column in model.columns.values() if column.description %}
      {% call statement('comment') %} comment on column {{ table }}."{{ column.name }}" is '{{ column.description | replace("'", "''") }}' {% endcall %}
    {% endfor %}
  {% endif %}
{% endmacro %}
