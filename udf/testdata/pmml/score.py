"""Checks a PMML 4.4 document and scores rows with it, by the published specification alone.

usage: score.py DOCUMENT.pmml < ROWS.json

ROWS.json is a list of objects, a value or null for each field. Prints a list of predictions:
of a classification by softmax an object of its outputs, of another the probability of 1. What stands below as SCHEMA is the part of DMG's
XML schema that RegressionModels need: the elements in their order with how many there may
be, and the attributes with their types. Anything else is an error.
"""
import json
import math
import re
import sys
import xml.etree.ElementTree as ET

NS = "{http://www.dmg.org/PMML-4_4}"
NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
TEXT = re.compile(r".*", re.S)


def one_of(*words):
    return re.compile("|".join(words))


OPTYPE, DATATYPE = one_of("categorical", "ordinal", "continuous"), one_of("string", "integer", "float", "double", "boolean", "date", "time", "dateTime")
NORMALIZATION = one_of("none", "simplemax", "softmax", "logit", "probit", "cloglog", "exp", "loglog", "cauchit")
EXPRESSION = {"Constant", "FieldRef", "NormDiscrete", "Apply"}
# element: (children as (names, least, most), attributes as name: (type, required))
SCHEMA = {
    "PMML": ([({"Header"}, 1, 1), ({"DataDictionary"}, 1, 1), ({"RegressionModel"}, 1, 1)], {"version": (re.compile(r"4\.4(\.\d)?"), True)}),
    "Header": ([({"Application"}, 0, 1)], {"description": (TEXT, False), "copyright": (TEXT, False), "modelVersion": (TEXT, False)}),
    "Application": ([], {"name": (TEXT, True), "version": (TEXT, False)}),
    "DataDictionary": ([({"DataField"}, 1, 1e9)], {"numberOfFields": (re.compile(r"\d+"), False)}),
    "DataField": ([({"Value"}, 0, 1e9)], {"name": (TEXT, True), "optype": (OPTYPE, True), "dataType": (DATATYPE, True), "displayName": (TEXT, False)}),
    "Value": ([], {"value": (TEXT, True), "property": (one_of("valid", "invalid", "missing"), False)}),
    "RegressionModel": ([({"MiningSchema"}, 1, 1), ({"Output"}, 0, 1), ({"LocalTransformations"}, 0, 1), ({"RegressionTable"}, 1, 1e9)],
                        {"modelName": (TEXT, False), "functionName": (one_of("regression", "classification"), True), "algorithmName": (TEXT, False), "normalizationMethod": (NORMALIZATION, False)}),
    "MiningSchema": ([({"MiningField"}, 1, 1e9)], {}),
    "MiningField": ([], {"name": (TEXT, True), "usageType": (one_of("active", "target", "predicted", "supplementary"), False), "missingValueTreatment": (one_of("asIs", "asMean", "asMode", "asMedian", "asValue", "returnInvalid"), False),
                         "invalidValueTreatment": (one_of("returnInvalid", "asIs", "asMissing", "asValue"), False)}),
    "Output": ([({"OutputField"}, 1, 1e9)], {}),
    "OutputField": ([], {"name": (TEXT, True), "optype": (OPTYPE, False), "dataType": (DATATYPE, True), "feature": (one_of("predictedValue", "probability"), False), "value": (TEXT, False)}),
    "LocalTransformations": ([({"DerivedField"}, 0, 1e9)], {}),
    "DerivedField": ([(EXPRESSION, 1, 1)], {"name": (TEXT, False), "optype": (OPTYPE, True), "dataType": (DATATYPE, True)}),
    "Constant": ([], {"dataType": (DATATYPE, False)}),
    "FieldRef": ([], {"field": (TEXT, True)}),
    "NormDiscrete": ([], {"field": (TEXT, True), "value": (TEXT, True), "mapMissingTo": (NUMBER, False)}),
    "Apply": ([(EXPRESSION, 0, 1e9)], {"function": (TEXT, True), "mapMissingTo": (TEXT, False), "defaultValue": (TEXT, False)}),
    "RegressionTable": ([({"NumericPredictor"}, 0, 1e9), ({"CategoricalPredictor"}, 0, 1e9), ({"PredictorTerm"}, 0, 1e9)], {"intercept": (NUMBER, True), "targetCategory": (TEXT, False)}),
    "NumericPredictor": ([], {"name": (TEXT, True), "exponent": (re.compile(r"-?\d+"), False), "coefficient": (NUMBER, True)}),
    "CategoricalPredictor": ([], {"name": (TEXT, True), "value": (TEXT, True), "coefficient": (NUMBER, True)}),
    "PredictorTerm": ([({"FieldRef"}, 1, 1e9)], {"name": (TEXT, False), "coefficient": (NUMBER, True)}),
}


def tag(e):
    if not e.tag.startswith(NS):
        raise ValueError(f"element {e.tag} of another name space")
    return e.tag[len(NS):]


def check(e):
    """Compares an element and all below with SCHEMA."""
    name = tag(e)
    children, attributes = SCHEMA[name]
    for a, v in e.attrib.items():
        if a not in attributes or not attributes[a][0].fullmatch(v):
            raise ValueError(f"{name} has {a}={v!r}")
    for a, (_, required) in attributes.items():
        if required and a not in e.attrib:
            raise ValueError(f"{name} lacks {a}")
    rest = list(e)
    for names, least, most in children:
        n = 0
        while rest and tag(rest[0]) in names:
            check(rest.pop(0))
            n += 1
        if not least <= n <= most:
            raise ValueError(f"{name} has {n} of {names}")
    if rest:
        raise ValueError(f"{name} has {tag(rest[0])} where it may not be")
    if (e.text or "").strip() and name != "Constant":
        raise ValueError(f"{name} has text")


def check_fields(doc):
    """Every field is declared once, and used only where it is declared."""
    known = [f.get("name") for f in doc.iter(NS + "DataField")]
    if int(doc.find(NS + "DataDictionary").get("numberOfFields", len(known))) != len(known):
        raise ValueError("numberOfFields")
    mined = [f.get("name") for f in doc.iter(NS + "MiningField")]
    if sorted(mined) != sorted(known):
        raise ValueError("fields of the dictionary and of the mining schema differ")
    for d in doc.iter(NS + "DerivedField"):
        for r in d.iter():
            if r.get("field") is not None and r.get("field") not in known:
                raise ValueError(f"field {r.get('field')} is not known yet")
        known.append(d.get("name"))
    if len(set(known)) != len(known):
        raise ValueError("a field is there twice")
    for t in doc.iter(NS + "RegressionTable"):
        for r in t.iter():
            if (tag(r) in ("NumericPredictor", "CategoricalPredictor") and r.get("name") not in known) or (tag(r) == "FieldRef" and r.get("field") not in known):
                raise ValueError(f"{r.attrib} is no field")


def check_categories(model, doc):
    """A classification has a table for each value of its target, and outputs of these alone."""
    tables = model.findall(NS + "RegressionTable")
    if model.get("functionName") != "classification":
        if len(tables) != 1:
            raise ValueError("tables of a regression")
        return
    target = [f.get("name") for f in model.iter(NS + "MiningField") if f.get("usageType") == "target"]
    values = [v.get("value") for f in doc.iter(NS + "DataField") if f.get("name") in target for v in f]
    categories = [t.get("targetCategory") for t in tables]
    if len(target) != 1 or len(values) < 2 or len(set(values)) != len(values) or sorted(values) != sorted(categories):
        raise ValueError(f"{len(categories)} tables of categories for {len(values)} values of {len(target)} targets")
    for o in model.iter(NS + "OutputField"):
        if o.get("feature") != "probability" or o.get("value") not in values:
            raise ValueError(f"output {o.get('name')} is of no category")
    if model.get("normalizationMethod") != "softmax" and (categories != ["1", "0"] or len(tables[1]) or float(tables[1].get("intercept"))):
        raise ValueError("the two categories")


def evaluate(e, row):
    """The value of an expression, None where it is missing."""
    name = tag(e)
    if name == "Constant":
        return float(e.text)
    if name == "FieldRef":
        return row.get(e.get("field"))
    if name == "NormDiscrete":
        v = row.get(e.get("field"))
        if v is None:
            return float(e.get("mapMissingTo")) if e.get("mapMissingTo") is not None else None
        return 1.0 if v == e.get("value") else 0.0
    args = list(e)
    if e.get("function") == "isMissing":
        return evaluate(args[0], row) is None
    if e.get("function") == "if":
        return evaluate(args[1] if evaluate(args[0], row) else args[2], row)
    raise ValueError("function " + e.get("function"))


def table(t, row):
    y = float(t.get("intercept"))
    for e in t:
        w = float(e.get("coefficient"))
        if tag(e) == "CategoricalPredictor":
            y += w * (row.get(e.get("name")) == e.get("value"))
            continue
        if tag(e) == "NumericPredictor":
            x = row.get(e.get("name"))
            x = None if x is None else x ** int(e.get("exponent", 1))
        else:
            x = 1.0
            for r in e:
                v = row.get(r.get("field"))
                x = None if v is None or x is None else x * v
        if x is None:
            return None
        y += w * x
    return y


INVERSE = {
    "none": lambda y: y,
    "exp": math.exp,
    "logit": lambda y: 1 / (1 + math.exp(-y)) if y > -700 else math.exp(y),
    "probit": lambda y: 0.5 * math.erfc(-y / math.sqrt(2)),
    "cloglog": lambda y: -math.expm1(-math.exp(y)),
}


def main():
    doc = ET.parse(sys.argv[1]).getroot()
    check(doc)
    check_fields(doc)
    model = doc.find(NS + "RegressionModel")
    tables = model.findall(NS + "RegressionTable")
    check_categories(model, doc)
    out = []
    for row in json.load(sys.stdin):
        for d in doc.iter(NS + "DerivedField"):
            row[d.get("name")] = evaluate(d[0], row)
        scores = [table(t, row) for t in tables]
        if model.get("normalizationMethod") == "softmax":
            top = max(scores)
            total = math.fsum(math.exp(y - top) for y in scores)
            p = {t.get("targetCategory"): math.exp(y - top) / total for t, y in zip(tables, scores)}
            out.append({o.get("name"): p[o.get("value")] for o in model.iter(NS + "OutputField")})
        else:
            out.append(INVERSE[model.get("normalizationMethod", "none")](scores[0]))
    json.dump(out, sys.stdout)


main()
