package export

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bglm/bglm/kernels"
)

// PMML returns a fit as a document of PMML 4.4, a RegressionModel with the fit's mean weights: its
// predictions are those of bglm_predict with 'plugin'. For bernoulli it is a classification with
// the probability of 1 as its output; for classes a softmax classification with an output for each,
// the field probability(CLASS); for other families a regression. response names the target field, y
// if it is empty.
//
// Its fields are the columns of the fit: numbers, and levels as text. Missing numbers, missing
// levels and unseen levels are handled as by bglm_predict. An interaction named after columns that
// the fit has as well, as those of formulas are (a:b), is computed from these; any other is a field
// of its own, the product or 'x:y'.
//
// Errors: a fit with hashed features, with a single class, or with features that belong to no
// column; an interaction of levels and numbers without separate columns for these in the fit; names
// and levels that XML cannot represent.
//
// Source: [dmg2019], RegressionModel, Transformations and MiningSchema.
func PMML(f *kernels.Fit, response string) (string, error) {
	if f == nil {
		return "", kernels.ErrNoFit
	}
	models, of, err := pmmlModels(f)
	if err != nil {
		return "", err
	}
	p := &pmml{taken: map[string]bool{}, made: map[string]string{}}
	m := models[0]
	for k := range m.columns {
		c := &m.columns[k]
		p.taken[c.name] = m.parts(c) == nil
		if err := p.field(m, c); err != nil {
			return "", err
		}
	}
	for k, m := range models {
		switch {
		case len(f.Classes) > 0:
			if err := checkXML(f.Classes[k]); err != nil {
				return "", err
			}
			err = p.table(m, "targetCategory", f.Classes[k])
		case of.binary:
			err = p.table(m, "targetCategory", "1")
			p.tables = append(p.tables, element("RegressionTable", "", "intercept", "0", "targetCategory", "0"))
		default:
			err = p.table(m)
		}
		if err != nil {
			return "", err
		}
	}
	target := p.name(cmp.Or(response, "y"))
	if err := checkXML(target); err != nil {
		return "", err
	}
	return p.document(f, m, of, target), nil
}

// pmmlResponse describes the response in a document.
type pmmlResponse struct {
	link, method string // method is PMML's name for it
	binary       bool
}

// pmmlModels returns a model for each table of the document, and the description of its response.
func pmmlModels(f *kernels.Fit) (models []*model, of pmmlResponse, err error) {
	if len(f.Classes) == 1 {
		return nil, of, fmt.Errorf("the FIT has the class %q alone, and PMML classifies among two and more; allowed: a fit of two classes or more", f.Classes[0])
	}
	if len(f.Classes) > 0 {
		models, err = classModels(f)
		return models, pmmlResponse{link: "softmax", method: "softmax"}, err
	}
	m, err := newModel(f)
	if err != nil {
		return nil, of, err
	}
	l, to, err := likelihoodOf(f)
	if err != nil {
		return nil, of, err
	}
	return []*model{m}, pmmlResponse{l.Link(), to.pmml, l.Traits().Binary}, nil
}

// pmml collects the parts of a document.
type pmml struct {
	taken                       map[string]bool   // names of fields
	made                        map[string]string // derived fields by expression
	fields, transformed, tables []string
	numbers, kinds, by          []string // of the current table: NumericPredictor, CategoricalPredictor, PredictorTerm
}

// name is want, with marks appended if another field has that name.
func (p *pmml) name(want string) string {
	for p.taken[want] {
		want += "'"
	}
	p.taken[want] = true
	return want
}

// field adds a column's field, unless it is derived from other columns.
func (p *pmml) field(m *model, c *column) error {
	if err := checkXML(c.name); err != nil {
		return err
	}
	for j := range c.levels {
		if err := checkXML(c.levels[j].level); err != nil {
			return err
		}
	}
	optype, of := "categorical", "string"
	if c.number {
		optype, of = "continuous", "double"
	}
	switch {
	case m.parts(c) != nil:
		return nil
	case c.mixed():
		return fmt.Errorf("the FIT has the interaction %q of levels and numbers, but not its columns by themselves, whose kinds are not known; allowed: a fit that has them too", c.name)
	}
	p.fields = append(p.fields, element("DataField", "", "name", c.name, "optype", optype, "dataType", of))
	return nil
}

// table adds the table of a model, with attributes in pairs.
func (p *pmml) table(m *model, attributes ...string) error {
	p.numbers, p.kinds, p.by = nil, nil, nil
	for k := range m.columns {
		if err := p.column(m, &m.columns[k]); err != nil {
			return err
		}
	}
	intercept := 0.0
	if m.intercept != nil {
		intercept = m.intercept.mean
	}
	p.tables = append(p.tables, element("RegressionTable", strings.Join(p.numbers, "")+strings.Join(p.kinds, "")+strings.Join(p.by, ""),
		append([]string{"intercept", double(intercept)}, attributes...)...))
	return nil
}

// column adds what is derived from a column, and its terms.
func (p *pmml) column(m *model, c *column) error {
	if parts := m.parts(c); parts != nil {
		return p.interaction(c, parts)
	}
	missing := func(yes, no string) string { return isMissing(c.name, yes, no) }
	null := derived{c.name + kernels.IsNull, missing(constant(1), constant(0))}
	if c.number {
		p.numeric(derived{c.name + ", its mean where missing", missing(constant(c.stand), fieldRef(c.name))}, c.unit.mean)
		p.numeric(null, c.null.mean)
		return nil
	}
	for j := range c.levels {
		if w := c.levels[j].mean - c.other.mean; w != 0 {
			p.kinds = append(p.kinds, element("CategoricalPredictor", "", "name", c.name, "value", c.levels[j].level, "coefficient", double(w)))
		}
	}
	p.numeric(derived{c.name + " is there", missing(constant(0), constant(1))}, c.other.mean)
	p.numeric(null, c.null.mean)
	return nil
}

// interaction adds the terms of a column that is an interaction of others: products of numbers and
// of indicators of levels.
func (p *pmml) interaction(c *column, parts []*column) error {
	var numbers []derived
	none, there := constant(0), constant(1)
	for k := len(parts) - 1; k >= 0; k-- {
		q := parts[k]
		if c.number || !q.number {
			none, there = isMissing(q.name, constant(1), none), isMissing(q.name, constant(0), there)
		}
		if q.number {
			stand := 0.0
			if !c.number {
				stand = c.stand
			} else if c.parts != nil {
				stand = q.stand
			}
			numbers = append(numbers, derived{q.name + ", " + double(stand) + " where missing", isMissing(q.name, constant(stand), fieldRef(q.name))})
		}
	}
	null := derived{c.name + kernels.IsNull, none}
	if c.number {
		p.product(c.unit.mean, numbers...)
		weight := c.null.mean
		if c.parts == nil {
			weight += c.stand * c.unit.mean
		}
		p.numeric(null, weight)
		return nil
	}
	for j := range c.levels {
		s := &c.levels[j]
		values, fields := valuesOf(s.level), slices.Clone(numbers)
		if len(values)+len(numbers) != len(parts) {
			return fmt.Errorf("the FIT has the level %q of the interaction %q, which has not a value for each of its columns of levels", s.level, c.name)
		}
		for _, q := range parts {
			if !q.number {
				is := element("NormDiscrete", "", "field", q.name, "value", values[0], "mapMissingTo", "0")
				fields, values = append(fields, derived{q.name + "=" + values[0], is}), values[1:]
			}
		}
		p.product(s.mean-c.other.mean, fields...)
	}
	p.product(c.other.mean, append(numbers, derived{c.name + " is there", there})...)
	if len(numbers) == 0 {
		p.numeric(null, c.null.mean)
	} else { // a missing level counts as nothing, or as a level never seen if the numbers were centred
		p.product(c.null.mean, append(numbers, null)...)
	}
	return nil
}

// derived is a field defined by an expression, with the name it gets if that is free.
type derived struct{ name, expression string }

// use adds a derived field to the document, once, and returns its name there.
func (p *pmml) use(d derived) string {
	name, ok := p.made[d.expression]
	if !ok {
		name = p.name(d.name)
		p.made[d.expression] = name
		p.transformed = append(p.transformed, element("DerivedField", d.expression, "name", name, "optype", "continuous", "dataType", "double"))
	}
	return name
}

func (p *pmml) numeric(d derived, weight float64) {
	if weight != 0 {
		p.numbers = append(p.numbers, element("NumericPredictor", "", "name", p.use(d), "coefficient", double(weight)))
	}
}

// product adds the term of a weight times fields.
func (p *pmml) product(weight float64, fields ...derived) {
	if weight == 0 {
		return
	}
	refs := ""
	for _, d := range fields {
		refs += fieldRef(p.use(d))
	}
	p.by = append(p.by, element("PredictorTerm", refs, "coefficient", double(weight)))
}

// document assembles the parts.
func (p *pmml) document(f *kernels.Fit, m *model, of pmmlResponse, target string) string {
	function, optype, kind := "classification", "categorical", "integer"
	values, outputs := "", ""
	probability := func(name, category string) {
		values += element("Value", "", "value", category)
		outputs += element("OutputField", "", "name", p.name(name), "optype", "continuous", "dataType", "double", "feature", "probability", "value", category)
	}
	switch {
	case len(f.Classes) > 0:
		kind = "string"
		for _, class := range f.Classes {
			probability("probability("+class+")", class)
		}
	case of.binary:
		values = element("Value", "", "value", "0")
		probability("probability", "1")
	default:
		function, optype, kind = "regression", "continuous", "double"
		outputs = element("OutputField", "", "name", p.name("prediction"), "optype", "continuous", "dataType", "double", "feature", "predictedValue")
	}
	field := element("DataField", values, "name", target, "optype", optype, "dataType", kind)
	mining := element("MiningField", "", "name", target, "usageType", "target")
	for k := range m.columns {
		if c := &m.columns[k]; m.parts(c) == nil {
			mining += element("MiningField", "", "name", c.name, "usageType", "active", "missingValueTreatment", "asIs", "invalidValueTreatment", "asIs")
		}
	}
	transformations := ""
	if len(p.transformed) > 0 {
		transformations = element("LocalTransformations", strings.Join(p.transformed, ""))
	}
	model := element("RegressionModel", element("MiningSchema", mining)+element("Output", outputs)+transformations+strings.Join(p.tables, ""),
		"modelName", "bglm", "functionName", function, "algorithmName", "bglm "+f.Method, "normalizationMethod", of.method)
	return `<?xml version="1.0" encoding="UTF-8"?>` + "\n" + element("PMML", element("Header", element("Application", "", "name", "bglm"), "description", strings.TrimSpace(f.Family+" "+of.link)+", weights at their posterior mean")+
		element("DataDictionary", strings.Join(p.fields, "")+field, "numberOfFields", strconv.Itoa(len(p.fields)+1))+model,
		"xmlns", "http://www.dmg.org/PMML-4_4", "version", "4.4")
}

// element is an XML element on lines of its own; attributes come in pairs.
func element(name, content string, attributes ...string) string {
	var b strings.Builder
	b.WriteString("<" + name)
	for k := 0; k < len(attributes); k += 2 {
		b.WriteString(" " + attributes[k] + `="` + escapeXML.Replace(attributes[k+1]) + `"`)
	}
	switch {
	case content == "":
		b.WriteString("/>\n")
	case strings.HasPrefix(content, "<"):
		b.WriteString(">\n" + content + "</" + name + ">\n")
	default:
		b.WriteString(">" + content + "</" + name + ">\n")
	}
	return b.String()
}

// escapeXML also preserves white space in attributes.
var escapeXML = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "\n", "&#10;", "\r", "&#13;", "\t", "&#9;")

// checkXML rejects what XML 1.0 cannot represent.
func checkXML(s string) error {
	for _, r := range s {
		if r == utf8.RuneError || r < 0x20 && r != '\n' && r != '\r' && r != '\t' || r == 0xFFFE || r == 0xFFFF {
			return fmt.Errorf("the name, level or class %q has a character that XML cannot write; allowed: text without control characters", s)
		}
	}
	return nil
}

func double(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

func constant(x float64) string { return element("Constant", double(x), "dataType", "double") }

func fieldRef(name string) string { return element("FieldRef", "", "field", name) }

func isMissing(field, yes, no string) string {
	return element("Apply", element("Apply", fieldRef(field), "function", "isMissing")+yes+no, "function", "if")
}
