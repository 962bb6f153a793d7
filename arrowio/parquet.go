package arrowio

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/bglm/bglm/kernels"
)

// rowGroup is the number of rows in DuckDB's row groups.
const rowGroup = 122880

// WriteParquet writes f as a Parquet file (zstd): the belief table in belief order, the rest of f
// in its column fit, and the pairs of meta in the metadata, as in BeliefSchema. Equal fits give
// equal bytes.
//
// Errors: those of FitRecord and of w; after an error w holds part of a file.
// Cost: O(p) plus compression; beliefs out of order are sorted in a copy.
func WriteParquet(w io.Writer, f *kernels.Fit, meta ...string) error {
	return (&Groups{Fits: []*kernels.Fit{f}}).WriteParquet(w, meta...)
}

// WriteParquet writes the fits as one belief table with the columns of Keys in front, one fit after
// another; otherwise it is like the function WriteParquet.
func (g *Groups) WriteParquet(w io.Writer, meta ...string) error {
	if err := g.writeParquet(w, meta); err != nil {
		return fmt.Errorf("arrowio: %w", err)
	}
	return nil
}

// unclosed hides Close: the Parquet writer closes any io.Closer.
type unclosed struct{ io.Writer }

func (g *Groups) writeParquet(w io.Writer, meta []string) error {
	if slices.Contains(g.Fits, nil) {
		return kernels.ErrNoFit
	}
	// Names are unique and numbers rarely repeat: dictionaries would only cost.
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDictionaryDefault(false), parquet.WithCreatedBy("bglm"),
		parquet.WithMaxRowGroupLength(rowGroup))
	out, err := pqarrow.NewFileWriter(g.schema(meta), unclosed{w}, props, pqarrow.DefaultWriterProps())
	if err != nil {
		return err
	}
	if err := g.records(nil, meta, rowGroup, out.Write); err != nil {
		return err
	}
	return out.Close()
}

// WriteParquetFile writes f to the file path, to a temporary file beside it that is renamed once
// complete: path is the old file or the new one, never a part. An existing file keeps its
// permissions, a new one has 0644 less the umask.
//
// Errors: those of WriteParquet and of the file system, with the path.
func WriteParquetFile(path string, f *kernels.Fit, meta ...string) error {
	return (&Groups{Fits: []*kernels.Fit{f}}).WriteParquetFile(path, meta...)
}

// WriteParquetFile is WriteParquet to the file path, as the function WriteParquetFile does.
func (g *Groups) WriteParquetFile(path string, meta ...string) error {
	return writeFile(path, func(w io.Writer) error { return g.writeParquet(w, meta) })
}

func writeFile(path string, write func(io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("arrowio: writing %s: %w", path, err)
		}
	}()
	mode := os.FileMode(0o644)
	old, err := os.Stat(path)
	if err == nil {
		mode = old.Mode().Perm()
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	name := tmp.Name()
	defer func() {
		if err != nil {
			tmp.Close()
			os.Remove(name)
		}
	}()
	// Only an io.Writer: the Arrow and Parquet writers close any io.Closer.
	if err := write(unclosed{tmp}); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	if err := os.Chmod(name, mode); err != nil {
		return err
	}
	return os.Rename(name, path)
}

// ReadParquetFile reads the fit in the file path, as ReadParquet does. Errors name the path.
func ReadParquetFile(path string, o *Options) (*kernels.Fit, error) {
	f, err := readFile(path, o)
	if err != nil {
		return nil, fmt.Errorf("arrowio: reading %s: %w", path, err)
	}
	return f, nil
}

func readFile(path string, o *Options) (*kernels.Fit, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err) // without the path, which is added anyway
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, _, err := readParquetMeta(in, st.Size(), o)
	return f, err
}

// ReadParquet reads a fit from a Parquet file of size bytes: one written by
// WriteParquet, or any with the columns feature (text), mean and variance
// (DOUBLE, FLOAT, INT32, INT64, also as DECIMAL) at its top level.
//
// Errors: those of ReadFit, and files that are not Parquet, encrypted or damaged. A damaged file
// never panics, and cannot make the reader hold more than a multiple of its size: pages, rows or
// names that expand more than 256 times (and beyond a million) are refused.
// Cost: O(p) time; memory for the result and one page of each column chunk.
func ReadParquet(r io.ReaderAt, size int64, o *Options) (*kernels.Fit, error) {
	f, _, err := readParquetMeta(r, size, o)
	if err != nil {
		return nil, fmt.Errorf("arrowio: %w", err)
	}
	return f, nil
}

const (
	// Distinct names compress, but hardly to less than a hundredth of a byte: a file beyond this
	// ratio is not a belief table.
	expansion = 256
	batchRows = 256 // small, because a damaged page can make every name of a batch long
)

// readParquetMeta also returns the pairs stored beside the fit's own metadata.
func readParquetMeta(r io.ReaderAt, size int64, o *Options) (f *kernels.Fit, kept map[string]string, err error) {
	// The Parquet library panics on some damaged files.
	defer func() {
		if p := recover(); p != nil {
			f, kept, err = nil, nil, fmt.Errorf("the file: %w", Damage(p))
		} else if err != nil {
			err = Damage(err)
		}
	}()
	if size < 12 {
		return nil, nil, fmt.Errorf("%d bytes are no Parquet file", size)
	}
	limit := int64(math.MaxInt64)
	if size < limit/expansion-1<<20 {
		limit = 1<<20 + expansion*size
	}
	props := parquet.NewReaderProperties(nil)
	props.BufferedStreamEnabled = true // else a column chunk is allocated whole, with its alleged size
	props.MaxCompressedPageSize = min(size, math.MaxInt32)
	props.MaxUncompressedPageSize = min(limit, math.MaxInt32)
	pr, err := file.NewParquetReader(io.NewSectionReader(r, 0, size), file.WithReadProps(props))
	if err != nil {
		return nil, nil, err
	}
	kv := pr.MetaData().KeyValueMetadata()
	t := &fitTable{table: table{max: o.maxFeatures(), names: limit}, rows: -1}
	if t.known, t.withRest, err = readMeta(kv.Keys(), kv.Values()); err != nil {
		return nil, nil, err
	}
	if err := t.find(pr.MetaData().Schema); err != nil {
		return nil, nil, err
	}
	if n := pr.NumRows(); n < 0 || n > limit {
		return nil, nil, fmt.Errorf("the file is damaged: %d rows in %d bytes", n, size)
	}
	for g := 0; g < pr.NumRowGroups() && !t.empty; g++ {
		rg := pr.RowGroup(g)
		if n := rg.NumRows(); n < 0 || n > limit-int64(len(t.beliefs)) {
			return nil, nil, fmt.Errorf("the file is damaged: row group %d has %d rows in %d bytes", g, n, size)
		}
		if err := t.addGroup(rg, pr.NumRows() == 1); err != nil {
			return nil, nil, err
		}
	}
	if int64(len(t.beliefs)) != pr.NumRows() && !t.empty {
		return nil, nil, fmt.Errorf("the file is damaged: %d rows, its footer says %d", len(t.beliefs), pr.NumRows())
	}
	if f, err = t.fit(t.known, o); err != nil {
		return nil, nil, err
	}
	return f, extra(kv.Keys(), kv.Values()), nil
}

// fitTable reads a table and finds its columns.
type fitTable struct {
	table
	known   *kernels.Fit // from the metadata
	columns [3]column
	tells   column  // Rest
	class   *column // nil without classes
	rows    int     // the column of covariance rows, -1 for none
}

// find finds the columns in the schema of a file.
func (t *fitTable) find(s *schema.Schema) (err error) {
	for i, name := range []string{Feature, Mean, Variance} {
		if t.columns[i], err = findColumn(s, name); err != nil {
			return err
		}
	}
	if (t.known != nil || t.withRest) && s.ColumnIndexByName(Class) >= 0 {
		c, err := findColumn(s, Class)
		if err != nil {
			return err
		}
		t.class = &c
	}
	if t.known != nil && correlated(t.known) || t.withRest && hasRows(s) {
		if t.rows, err = findRows(s); err != nil {
			return err
		}
	}
	if t.withRest {
		if t.tells, err = findColumn(s, Rest); err != nil {
			return fmt.Errorf("%w; metadata %sschema = %q needs it", err, prefix, SchemaVersion)
		}
	}
	return nil
}

// addGroup appends a row group; alone says that the file has only one row.
func (t *fitTable) addGroup(rg *file.RowGroupReader, alone bool) error {
	open := func(c *column) error {
		if err := c.open(rg); err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
		return nil
	}
	n := rg.NumRows()
	if err := t.room(int(n)); err != nil {
		return err
	}
	for i := range t.columns {
		if err := open(&t.columns[i]); err != nil {
			return err
		}
	}
	if t.withRest {
		if err := t.addRestOf(rg, &t.tells, int(n)); err != nil {
			return err
		}
		if alone {
			if t.empty = t.columns[0].isNull(); t.empty {
				return nil
			}
			if err := open(&t.columns[0]); err != nil { // again, from its beginning
				return err
			}
		}
	}
	if t.class != nil {
		if err := open(t.class); err != nil {
			return err
		}
	}
	if t.rows >= 0 && (t.known != nil || t.head != nil && correlated(t.head)) {
		if err := t.addRows(rg, t.rows, n, t.names); err != nil {
			return fmt.Errorf("column %s: %w", CovarianceRow, err)
		}
	}
	for ; n > 0; n -= min(n, batchRows) {
		k := int(min(n, batchRows))
		if t.class != nil {
			if err := t.addClasses(t.class, k); err != nil {
				return err
			}
		}
		if err := t.addBatch(&t.columns, k); err != nil {
			return err
		}
	}
	return nil
}

// column reads one top-level column, a row group after another.
type column struct {
	name     string
	index    int
	physical parquet.Type
	unit     float64 // 10^scale of a decimal, else 1
	optional bool

	chunk  file.ColumnChunkReader
	defs   [batchRows]int16
	bytes  [batchRows]parquet.ByteArray
	floats [batchRows]float64
	f32    [batchRows]float32
	i32    [batchRows]int32
	i64    [batchRows]int64
}

func findColumn(s *schema.Schema, name string) (column, error) {
	c := column{name: name, index: -1, unit: 1}
	var names []string
	for i := range s.NumColumns() {
		d := s.Column(i)
		path := d.ColumnPath()
		names = append(names, path.String())
		if len(path) != 1 || path[0] != name {
			continue
		}
		if c.index >= 0 {
			return c, fmt.Errorf("column %s is there more than once", name)
		}
		c.index, c.physical = i, d.PhysicalType()
		if d.MaxRepetitionLevel() != 0 || d.MaxDefinitionLevel() > 1 {
			return c, fmt.Errorf("column %s is nested or repeated; allowed: one value a row", name)
		}
		c.optional = d.MaxDefinitionLevel() == 1
		if err := c.accept(d); err != nil {
			return c, err
		}
	}
	if c.index < 0 {
		return c, missing(name, names)
	}
	return c, nil
}

// accept checks the column's type.
func (c *column) accept(d *schema.Column) error {
	logical := d.LogicalType()
	found := c.physical.String()
	if logical != nil && !logical.IsNone() {
		found += " (" + logical.String() + ")"
	}
	if c.name == Feature || c.name == Class || c.name == Rest {
		switch logical.(type) {
		case schema.StringLogicalType, schema.EnumLogicalType, schema.JSONLogicalType:
			if c.physical == parquet.Types.ByteArray {
				return nil
			}
		}
		return fmt.Errorf("column %s: its type is %s; allowed: BYTE_ARRAY (String)", c.name, found)
	}
	switch c.physical {
	case parquet.Types.Double, parquet.Types.Float:
		return nil
	case parquet.Types.Int32, parquet.Types.Int64:
		switch l := logical.(type) {
		case nil, schema.NoLogicalType, schema.UnknownLogicalType:
			return nil
		case schema.IntLogicalType:
			if l.IsSigned() {
				return nil
			}
		case schema.DecimalLogicalType:
			if l.Scale() >= 0 && l.Scale() <= 18 {
				c.unit = math.Pow10(int(l.Scale()))
				return nil
			}
		}
	}
	return fmt.Errorf("column %s: its type is %s; allowed: DOUBLE, FLOAT, signed INT32 or INT64, also as DECIMAL", c.name, found)
}

func (c *column) open(rg *file.RowGroupReader) (err error) {
	c.chunk, err = rg.Column(c.index)
	return err
}

// read reads n <= batchRows rows.
func (c *column) read(n int) error {
	for done := 0; done < n; {
		var total int64
		var values int
		var err error
		k := int64(n - done)
		switch r := c.chunk.(type) {
		case *file.ByteArrayColumnChunkReader:
			total, values, err = r.ReadBatch(k, c.bytes[done:], c.defs[done:], nil)
		case *file.Float64ColumnChunkReader:
			total, values, err = r.ReadBatch(k, c.floats[done:], c.defs[done:], nil)
		case *file.Float32ColumnChunkReader:
			total, values, err = r.ReadBatch(k, c.f32[done:], c.defs[done:], nil)
			for i := range values {
				c.floats[done+i] = float64(c.f32[done+i])
			}
		case *file.Int32ColumnChunkReader:
			total, values, err = r.ReadBatch(k, c.i32[done:], c.defs[done:], nil)
			for i := range values {
				c.floats[done+i] = float64(c.i32[done+i]) / c.unit
			}
		case *file.Int64ColumnChunkReader:
			total, values, err = r.ReadBatch(k, c.i64[done:], c.defs[done:], nil)
			for i := range values {
				c.floats[done+i] = float64(c.i64[done+i]) / c.unit
			}
		default:
			err = fmt.Errorf("reader %T does not fit its type", r)
		}
		if err != nil {
			return err
		}
		if int(total) > values {
			return errNull
		}
		if total <= 0 || values > n-done {
			return fmt.Errorf("the file is damaged: rows are missing")
		}
		done += int(total)
	}
	return nil
}

var errNull = errors.New("NULL; each belief needs a feature, a mean and a variance")

func (t *table) addBatch(cols *[3]column, n int) error {
	first := len(t.beliefs)
	for i := range cols {
		if err := cols[i].read(n); err != nil {
			return fmt.Errorf("column %s, rows %d to %d: %w", cols[i].name, first+1, first+n, err)
		}
	}
	size := 0
	for i := range n {
		size += len(cols[0].bytes[i])
	}
	if t.bytes += int64(size); t.bytes > t.names {
		return fmt.Errorf("the file is damaged: column feature holds more than %d bytes", t.names)
	}
	text := make([]byte, 0, size) // the names of a batch share memory
	for i := range n {
		text = append(text, cols[0].bytes[i]...)
	}
	all := string(text)
	for i := range n {
		k := len(cols[0].bytes[i])
		if err := t.add(all[:k], kernels.Weight{Mean: cols[1].floats[i], Variance: cols[2].floats[i]}); err != nil {
			return err
		}
		all = all[k:]
	}
	return nil
}

// isNull reads the first value of the row group and reports whether it is NULL.
func (c *column) isNull() bool { return c.optional && errors.Is(c.read(1), errNull) }

// addRestOf reads the column Rest of a row group, most of whose rows are NULL.
func (t *table) addRestOf(rg *file.RowGroupReader, c *column, n int) error {
	if err := c.open(rg); err != nil {
		return fmt.Errorf("column %s: %w", c.name, err)
	}
	r, ok := c.chunk.(*file.ByteArrayColumnChunkReader)
	if !ok {
		return fmt.Errorf("column %s: reader %T does not fit its type", c.name, c.chunk)
	}
	first := len(t.beliefs)
	for done := 0; done < n; {
		total, values, err := r.ReadBatch(int64(min(n-done, batchRows)), c.bytes[:], c.defs[:], nil)
		if err != nil {
			return fmt.Errorf("column %s: %w", c.name, err)
		}
		if total <= 0 || values > int(total) {
			return fmt.Errorf("column %s: the file is damaged: rows are missing", c.name)
		}
		for i, at := 0, 0; i < int(total) && at < values; i++ {
			if c.optional && c.defs[i] == 0 {
				continue
			}
			if err := t.rest(string(c.bytes[at]), first+done+i); err != nil {
				return err
			}
			at++
		}
		done += int(total)
	}
	return nil
}

func (t *table) addClasses(c *column, n int) error {
	if err := c.read(n); err != nil {
		return fmt.Errorf("column %s, rows %d to %d: %w", c.name, len(t.class)+1, len(t.class)+n, err)
	}
	for i := range n {
		if t.bytes += int64(len(c.bytes[i])); t.bytes > t.names {
			return fmt.Errorf("the file is damaged: column %s holds more than %d bytes", c.name, t.names)
		}
		if len(t.class) > 0 && t.class[len(t.class)-1] == string(c.bytes[i]) {
			t.class = append(t.class, t.class[len(t.class)-1])
			continue
		}
		if !utf8.Valid(c.bytes[i]) {
			return fmt.Errorf("column %s, row %d: %.40q is not valid UTF-8", c.name, len(t.class)+1, c.bytes[i])
		}
		t.class = append(t.class, string(c.bytes[i]))
	}
	return nil
}

func hasRows(s *schema.Schema) bool {
	for i := range s.NumColumns() {
		if s.Column(i).ColumnPath()[0] == CovarianceRow {
			return true
		}
	}
	return false
}

// findRows is the index of the leaf in the list of covariances.
func findRows(s *schema.Schema) (int, error) {
	for i := range s.NumColumns() {
		d := s.Column(i)
		if path := d.ColumnPath(); path[0] != CovarianceRow {
			continue
		}
		if d.MaxRepetitionLevel() != 1 || d.PhysicalType() != parquet.Types.Double {
			return 0, fmt.Errorf("column %s is %s; allowed: a list of DOUBLE", CovarianceRow, d.PhysicalType())
		}
		return i, nil
	}
	return 0, fmt.Errorf("no column %s, which the metadata %scovariance needs", CovarianceRow, prefix)
}

// covarianceSlack is how many values a table may hold beyond what its size allows: zeros of a large
// factor compress well.
const covarianceSlack = 16 << 20

// addRows reads the covariance lists of a row group.
func (t *table) addRows(rg *file.RowGroupReader, index int, rows, limit int64) error {
	chunk, err := rg.Column(index)
	if err != nil {
		return err
	}
	r, ok := chunk.(*file.Float64ColumnChunkReader)
	if !ok {
		return fmt.Errorf("reader %T does not fit its type", chunk)
	}
	full := chunk.Descriptor().MaxDefinitionLevel()
	const most = 4096
	var values [most]float64
	var defs, reps [most]int16
	for r.HasNext() {
		n, got, err := r.ReadBatch(most, values[:], defs[:], reps[:])
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		if int(n) != got {
			return errors.New("NULL or an empty list; each belief needs its row of the covariance")
		}
		for i := range got {
			if defs[i] != full {
				return errors.New("NULL or an empty list; each belief needs its row of the covariance")
			}
			if reps[i] == 0 {
				if rows--; rows < 0 {
					return errors.New("the file is damaged: more lists than rows")
				}
				t.rows = append(t.rows, len(t.cov))
			} else if len(t.rows) == 0 {
				return errors.New("the file is damaged: a list without a beginning")
			}
			if int64(len(t.cov)) > limit+covarianceSlack {
				return fmt.Errorf("the file is damaged: more than %d values", limit+covarianceSlack)
			}
			t.cov = append(t.cov, values[i])
			t.rows[len(t.rows)-1] = len(t.cov)
		}
	}
	if rows != 0 {
		return errors.New("the file is damaged: lists are missing")
	}
	return nil
}
