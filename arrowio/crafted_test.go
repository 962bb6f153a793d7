package arrowio

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/gauss"
	"github.com/bglm/bglm/kernels/kerneltest/invariant"
)

var crafted = flag.Int("crafted", 5000, "how many crafted belief tables are read")

// craftedTable is a belief table whose parts need not fit together.
type craftedTable struct {
	keys, values []string
	rest         string // JSON; "" in versions 1 and 2
	class, name  []string
	mean, vari   []float64
	cov          [][]float64
	null         int // a column with a NULL in its first row, -1 = none
}

// craft is the table of f, or as versions 1 and 2 had it.
func craft(f *kernels.Fit, old bool) *craftedTable {
	m := BeliefSchema(f).Metadata()
	c := &craftedTable{rest: encodeHead(f)}
	if old {
		m, c.rest = metadataV2(f), ""
	}
	c.keys, c.values, c.null = slices.Clone(m.Keys()), slices.Clone(m.Values()), -1
	for i, b := range f.Beliefs {
		c.name, c.mean, c.vari = append(c.name, b.Feature), append(c.mean, b.Mean), append(c.vari, b.Variance)
		if n := len(f.Classes); n > 0 {
			c.class = append(c.class, f.Classes[i/(len(f.Beliefs)/n)])
		}
		if f.Covariance.Form != gauss.Diagonal {
			c.cov = append(c.cov, slices.Clone(f.Covariance.Row(i)))
		}
	}
	return c
}

var oddValues = []string{"", "0", "-1", "1", "2", "3", "31", "NaN", "+Inf", "-Inf", "1e308", "1e-320", "4611686018427387904", "9223372036854775807", "-9223372036854775808", "9007199254740993",
	"full", "diagonal", "lowrank", "gaussian", "gamma", "poisson", "multinomial", "softmax", "logit", "log", "identity", "true", "false", "9", "10000"}

var oddJSON = []string{"null", "0", "-1", "1", "2", "3", "31", "1e308", "1e-320", "-Infinity", "Infinity", "\"\"", "\"x\"", "\"full\"", "\"diagonal\"", "\"gaussian\"", "\"multinomial\"", "\"softmax\"", "\"log\"",
	"true", "false", "[]", "{}", "[null]", "9007199254740993", "9223372036854775808", "{\"kind\":\"lowrank\",\"rank\":2}", "[{\"name\":\"a\",\"kind\":\"number\",\"n\":1,\"missing\":0,\"center\":null,\"scale\":1,\"variance\":null}]"}

var oddFloats = []float64{0, 1, -1, 1e-300, 1e154, 1e308, math.NaN(), math.Inf(1), math.Inf(-1), 0.5}

func (c *craftedTable) mutate(rng *rand.Rand) {
	n := len(c.name)
	switch k := rng.IntN(10); {
	case k < 4 && c.rest != "" && rng.IntN(20) > 0:
		var fields map[string]json.RawMessage
		if json.Unmarshal([]byte(c.rest), &fields) != nil {
			return
		}
		names := slices.Sorted(maps.Keys(fields))
		odd := json.RawMessage(oddJSON[rng.IntN(len(oddJSON))])
		switch name := names[rng.IntN(len(names))]; {
		case rng.IntN(8) == 0:
			delete(fields, name)
		case rng.IntN(3) == 0 && name == "prior":
			fields[name] = json.RawMessage(strings.Replace(string(fields[name]), ":", ":"+string(odd)+",\"x\":", 1))
		default:
			fields[name] = odd
		}
		b, err := json.Marshal(fields)
		if err == nil {
			c.rest = string(b)
		} else {
			c.rest = strings.Replace(c.rest, ":", ":"+string(odd)+",\"x\":", 1)
		}
	case (k < 4 || n == 0) && len(c.keys) == 0: // all of them are gone
	case k < 4 || n == 0:
		i := rng.IntN(len(c.keys))
		if rng.IntN(8) == 0 {
			c.keys, c.values = slices.Delete(c.keys, i, i+1), slices.Delete(c.values, i, i+1)
		} else {
			c.values[i] = oddValues[rng.IntN(len(oddValues))]
		}
	case k == 4:
		c.mean[rng.IntN(n)] = oddFloats[rng.IntN(len(oddFloats))]
	case k == 5:
		c.vari[rng.IntN(n)] = oddFloats[rng.IntN(len(oddFloats))]
	case k == 6 && len(c.cov) > 0:
		r := rng.IntN(n)
		if len(c.cov[r]) == 0 {
			c.cov[r] = []float64{1}
		}
		switch j := rng.IntN(len(c.cov[r])); rng.IntN(4) {
		case 0:
			c.cov[r] = c.cov[r][:j]
		case 1:
			c.cov[r][j] = -c.cov[r][j]
		default:
			c.cov[r][j] = oddFloats[rng.IntN(len(oddFloats))]
		}
		if len(c.cov[r]) == 0 {
			c.cov[r] = []float64{1}
		}
	case k == 7:
		c.null = rng.IntN(4)
	case k == 8:
		a, b := rng.IntN(n), rng.IntN(n)
		c.name[a], c.name[b] = c.name[b], c.name[a]
		if len(c.class) > 0 && rng.IntN(2) == 0 {
			c.class[a], c.class[b] = c.class[b], c.class[a]
		}
	default:
		c.name[rng.IntN(n)] = []string{"", "a", "(Intercept)", "1", "10", c.name[rng.IntN(n)]}[rng.IntN(6)]
	}
}

func (c *craftedTable) record() arrow.RecordBatch {
	m := arrow.NewMetadata(c.keys, c.values)
	fs := slices.Clone(fields)
	if len(c.class) > 0 {
		fs = append(fs, arrow.Field{Name: Class, Type: arrow.BinaryTypes.String})
	}
	if len(c.cov) > 0 {
		fs = append(fs, arrow.Field{Name: CovarianceRow, Type: arrow.ListOf(arrow.PrimitiveTypes.Float64)})
	}
	if c.rest != "" {
		fs = append(fs, arrow.Field{Name: Rest, Type: arrow.BinaryTypes.String})
	}
	for i := range fs {
		fs[i].Nullable = true
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fs, &m))
	defer b.Release()
	for i := range c.name {
		for k := range fs {
			at := b.Field(k)
			switch {
			case i == 0 && k == c.null:
				at.AppendNull()
			case fs[k].Name == Feature:
				at.(*array.StringBuilder).Append(c.name[i])
			case fs[k].Name == Rest && i == 0:
				at.(*array.StringBuilder).Append(c.rest)
			case fs[k].Name == Rest:
				at.AppendNull()
			case fs[k].Name == Class:
				at.(*array.StringBuilder).Append(c.class[i])
			case fs[k].Name == Mean:
				at.(*array.Float64Builder).Append(c.mean[i])
			case fs[k].Name == Variance:
				at.(*array.Float64Builder).Append(c.vari[i])
			default:
				l := at.(*array.ListBuilder)
				l.Append(true)
				l.ValueBuilder().(*array.Float64Builder).AppendValues(c.cov[i], nil)
			}
		}
	}
	return b.NewRecordBatch()
}

// Tables of every kind with one to three things changed, read from Arrow and now and
// then from Parquet: no panic, and what is read is a fit by the slow checker.
func TestCraftedTables(t *testing.T) {
	full, low, soft := sample(), sample(), sample()
	for _, f := range []*kernels.Fit{full, low, soft} {
		for i := range f.Beliefs {
			f.Beliefs[i].Mean, f.Beliefs[i].Variance = float64(i), 1
		}
	}
	full.Covariance = kernels.Covariance{Form: gauss.Full, Values: []float64{1, 0.6, 0.8, 0, 0, 1, 0, 0, 0.6, 0.8, 0, 0, 0, 0, 1}}
	low.Covariance = kernels.Covariance{Form: gauss.LowRank, Rank: 1, Values: []float64{1.25, 0.5, 1.25, -0.5, 1.25, 0.5, 1.25, 0.5, 1, 0}}
	soft.Family, soft.Link, soft.Classes = "multinomial", "softmax", []string{"u", "v"}
	soft.Beliefs = append(soft.Beliefs, soft.Beliefs...)
	gamma := sample()
	gamma.Family, gamma.Link, gamma.Shape, gamma.HashBits, gamma.Time = "gamma", "log", 2, 3, 7
	all := []*kernels.Fit{sample(), full, low, soft, gamma}
	rng := rand.New(rand.NewPCG(5, 5))
	count := *crafted
	if testing.Short() {
		count = min(count, 1000)
	}
	read, refused := 0, 0
	for round := range count {
		c := craft(all[rng.IntN(len(all))], rng.IntN(2) == 0)
		for range rng.IntN(4) {
			c.mutate(rng)
		}
		rec := c.record()
		r, err := array.NewRecordReader(rec.Schema(), []arrow.RecordBatch{rec})
		if err != nil {
			t.Fatal(err)
		}
		f, err := ReadFit(r, nil)
		if round%50 == 0 {
			var b bytes.Buffer
			w, werr := pqarrow.NewFileWriter(rec.Schema(), &b, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
			if werr == nil {
				werr = w.Write(rec)
			}
			if werr == nil {
				werr = w.Close()
			}
			if werr != nil {
				t.Fatal(werr)
			}
			_, perr := ReadParquet(bytes.NewReader(b.Bytes()), int64(b.Len()), nil)
			if (perr == nil) != (err == nil) {
				t.Fatalf("round %d: from Arrow %v, from Parquet %v", round, err, perr)
			}
		}
		r.Release()
		rec.Release()
		if err != nil {
			if refused++; strings.Contains(err.Error(), "damaged") {
				t.Fatalf("round %d: a panic: %v\n%+v", round, err, c)
			}
			continue
		}
		read++
		if err := invariant.Check(f); err != nil {
			t.Fatalf("round %d: read although: %v\n%+v", round, err, c)
		}
	}
	t.Logf("%d tables, %d read, %d refused", count, read, refused)
	if read == 0 || refused == 0 {
		t.Error("one-sided")
	}
}
