package udf

import (
	"fmt"
	"strings"

	"github.com/bglm/bglm/kernels/export"
	"github.com/bglm/bglm/kernels/option"
	"github.com/bglm/bglm/kernels/predict"
	"github.com/bglm/bglm/udf/internal/capi"
)

// callSQL writes a query that scores rows in another database.
func callSQL(args []capi.Vec, n int, out *capi.Col) error {
	fits, err := newFitReader(&args[0], "fit")
	if err != nil {
		return err
	}
	fits.classes = true
	dialect := &args[1]
	if dialect.Type != capi.Varchar && dialect.Type != capi.SQLNull {
		return fmt.Errorf("dialect is %s; allowed: '%s'", dialect.TypeName(), strings.Join(export.Dialects(), "', '"))
	}
	var options *capi.Vec
	if len(args) > 2 {
		options = &args[2]
		if options.Type != capi.Struct && options.Type != capi.SQLNull {
			return fmt.Errorf("options are %s; allowed: a STRUCT such as {table: 'flights', keep: 'id'}", options.TypeName())
		}
	}
	for i := range n {
		if fits.null(i) || dialect.Null(i) {
			out.Null()
			continue
		}
		o, err := option.For("sql").Decode(constants(options, i, false))
		if err != nil {
			return err
		}
		f, err := fits.whole(i)
		if err != nil {
			return err
		}
		usual := "exact"
		if len(f.Classes) > 0 {
			usual = "plugin"
		}
		kind, err := predict.ParseKind(orWord(o.Answer.Prediction, usual))
		if err != nil {
			return err
		}
		var keep []string
		for _, c := range strings.Split(o.Answer.Keep, ",") {
			if c = strings.TrimSpace(c); c != "" {
				keep = append(keep, c)
			}
		}
		text, err := export.SQL(f, dialect.Str(i), export.Options{Table: o.Answer.Table, Keep: keep, Prediction: kind, Level: o.Answer.Level, Form: o.Answer.Form})
		if err != nil {
			return err
		}
		out.Str(text)
	}
	return nil
}

// callPMML writes a PMML document for scoring in other programs.
func callPMML(args []capi.Vec, n int, out *capi.Col) error {
	fits, err := newFitReader(&args[0], "fit")
	if err != nil {
		return err
	}
	fits.classes = true
	if len(args) > 1 && args[1].Type != capi.Varchar && args[1].Type != capi.SQLNull {
		return fmt.Errorf("response is %s; allowed: VARCHAR, the name of the field that is predicted", args[1].TypeName())
	}
	for i := range n {
		if fits.null(i) {
			out.Null()
			continue
		}
		f, err := fits.whole(i)
		if err != nil {
			return err
		}
		response := ""
		if len(args) > 1 && !args[1].Null(i) {
			response = strings.Clone(args[1].Str(i))
		}
		text, err := export.PMML(f, response)
		if err != nil {
			return err
		}
		out.Str(text)
	}
	return nil
}
