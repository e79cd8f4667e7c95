// Writes src/api/types.ts from the OpenAPI document of a master:
//
//     curl -s http://127.0.0.1:8080/api/openapi.json | node generate-types.mjs > src/api/types.ts
//
// Records become interfaces; every route has the names of its parameters and of the fields of its body. A test
// compares the file with what the master of the same sources says.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';

const upper = (name) => name[0].toUpperCase() + name.slice(1);
const key = (name) => (/^\w+$/.test(name) ? name : JSON.stringify(name));

const KNOWN = { 'a time (RFC 3339)': 'string | null', 'a number': 'ApiNumber' };

function typeOf(schema) {
    if (schema.allOf) return typeOf(schema.allOf[0]);
    if (schema.enum) return schema.enum.map((v) => JSON.stringify(v)).join(' | ');
    switch (schema.type) {
    case 'boolean':
        return 'boolean';
    case 'integer':
        return schema.nullable ? 'number | null' : 'number';
    case 'number':
        return 'ApiNumber';
    case 'string':
        return 'string | null';
    case 'array':
        return `${wrap(typeOf(schema.items).replace('string | null', 'string'))}[]`;
    case 'object':
        return schema.properties ? `{ ${fieldsOf(schema, true).join(' ')} }` : 'Record<string, unknown> | null';
    default:
        return KNOWN[schema.title] ?? 'unknown';
    }
}

const wrap = (type) => (type.includes('|') ? `(${type})` : type);

function fieldsOf(schema, isAnswer) {
    const required = new Set(schema.required ?? []);
    return Object.entries(schema.properties ?? {}).map(([name, field]) => {
        const optional = !isAnswer && !required.has(name) ? '?' : '';
        return `${key(name)}${optional}: ${isAnswer ? typeOf(field) : typeOf(field).replace('string | null', 'string')};`;
    });
}

function interfaceOf(name, schema, isAnswer) {
    return `export interface ${name} {\n${fieldsOf(schema, isAnswer).map((f) => `    ${f}\n`).join('')}}\n`;
}

const jsonOf = (message) => message?.content?.['application/json']?.schema;

function operationTypes(operation) {
    const out = [];
    const name = upper(operation.operationId.replace('ApiV1', ''));
    const query = (operation.parameters ?? []).filter((p) => p.in === 'query');
    if (query.length) {
        const properties = Object.fromEntries(query.map((p) => [p.name, p.schema.type && p.schema.type !== 'array' ? p.schema : { type: 'string' }]));
        out.push(interfaceOf(`${name}Query`, { properties }, false));
    }
    const body = jsonOf(operation.requestBody), answer = jsonOf(operation.responses[200]);
    if (body?.properties) out.push(interfaceOf(`${name}Body`, body, false));
    if (answer?.properties) out.push(interfaceOf(`${name}Answer`, answer, true));
    return out;
}

export function generate(document) {
    const parts = [
        '// Unit types.ts: written by generate-types.mjs from the OpenAPI document of the master; do not edit.\n' +
        "import type { ApiNumber } from '../text/format.ts';\n",
    ];
    for (const [name, schema] of Object.entries(document.components.schemas ?? {}))
        parts.push(interfaceOf(upper(name), schema, true));
    for (const path of Object.keys(document.paths).sort())
        if (path.startsWith('/api/v1/'))
            for (const operation of Object.values(document.paths[path])) parts.push(...operationTypes(operation));
    return parts.join('\n');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
    process.stdout.write(generate(JSON.parse(readFileSync(0, 'utf8'))));
