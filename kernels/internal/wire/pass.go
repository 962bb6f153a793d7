package wire

import (
	"github.com/bglm/bglm/kernels"
	"github.com/bglm/bglm/kernels/internal/tally"
)

// Head writes the head of a pass.
func (w *Writer) Head(h tally.Head) {
	w.Text(h.Family)
	w.Text(h.Link)
	w.Floats(h.Dispersion, h.Shape)
	w.Bool(h.NoIntercept)
	w.Whole(int64(h.HashBits))
}

// Head reads what Writer.Head wrote.
func (r *Reader) Head() tally.Head {
	return tally.Head{Family: r.Text(), Link: r.Text(), Dispersion: r.Float(), Shape: r.Float(), NoIntercept: r.Bool(), HashBits: int(r.Whole())}
}

// Counts writes columns and rows, as counted.
func (w *Writer) Counts(c *kernels.ColumnCounts, t *kernels.Totals) {
	w.Columns(c.Columns())
	w.Whole(t.Rows, t.Skipped)
	w.Floats(t.Weight)
}

// Counts reads what Writer.Counts wrote.
func (r *Reader) Counts(c *kernels.ColumnCounts, t *kernels.Totals) (cols []kernels.FitColumn) {
	if cols = r.Columns(); len(cols) > 0 {
		*c = kernels.CountFrom(cols)
	}
	t.Rows, t.Skipped, t.Weight = r.Whole(), r.Whole(), r.Float()
	return cols
}

// Values writes the totals of responses and numbers, and the names of the features.
func (w *Writer) Values(t *kernels.Totals, d *kernels.Dict) {
	w.Numbers(t.Y)
	w.Features(d, t.Numbers)
}

// Values reads what Writer.Values wrote, under a head and of the columns cols; see Features.
func (r *Reader) Values(t *kernels.Totals, d *kernels.Dict, h tally.Head, cols []kernels.FitColumn, most int) {
	t.Y = r.Numbers()
	d.HashBits = h.HashBits
	t.Numbers = r.Features(d, cols, most)
}
