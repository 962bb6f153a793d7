package kernels

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// remarks are the statuses of parts and whether all of them converged: the reliability of the
// product depends on these. Sentences that differ only in their numbers count as one, with the
// larger numbers kept, so that the order of the parts does not matter.
//
// For parts that are products it is known how many of their parts had a sentence, not of how many.
type remarks struct {
	parts    int64
	merged   bool // a part was a product itself
	diverged bool // a part had not converged
	skipped  bool // a part said that rows were skipped
	idle     int64
	left     int64  // sentences that a merged part omitted
	only     string // the status of a single part
	timed    bool   // a part has a time, and weights that move with it
	from, to float64
	by       map[string]*remark
}

// remark is a sentence, or the part of one after a semicolon.
type remark struct {
	text   string
	parts  int64
	varied bool   // parts had other numbers
	after  string // the key of the preceding remark in the status, "" for none
	mixed  bool   // that differed between parts
}

const (
	// mostRemarks limits the length of a product's status.
	mostRemarks = 8
	oneSays     = ", one of them so"
)

var (
	remarkNumber = regexp.MustCompile(`-?\b\d+(?:[.,]\d+)*(?:e[-+]?\d+)?`)
	remarkHead   = regexp.MustCompile(`^(\d+)(?: of \d+)? parts? says?(` + oneSays + `)?: `)
	remarkLeft   = regexp.MustCompile(`^and (\d+) other sentences?$`)
	remarkSkip   = regexp.MustCompile(`^\d+ rows? (?:was|were) skipped$`)
)

// add adds a part, whose status is copied.
func (r *remarks) add(f *Fit) {
	r.parts++
	r.merged = r.merged || f.Method == "merge"
	r.diverged = r.diverged || !f.Converged
	if _, _, drifts := f.Kept(KeptDrift); drifts && !math.IsNaN(f.Time) {
		r.at(f.Time, f.Time)
	}
	if r.only = ""; f.Status == "" || f.Status == "ok" {
		return
	}
	r.only = strings.Clone(f.Status)
	n, varied, after := int64(1), false, ""
	for text := range strings.SplitSeq(r.only, "; ") {
		if head := remarkHead.FindStringSubmatch(text); head != nil {
			n, _ = strconv.ParseInt(head[1], 10, 64)
			text, varied, after, r.merged = text[len(head[0]):], head[2] != "", "", true
		}
		switch left := remarkLeft.FindStringSubmatch(text); {
		case left != nil:
			more, _ := strconv.ParseInt(left[1], 10, 64)
			r.left += more
		case remarkSkip.MatchString(text):
			r.skipped = true
		case text == WeightlessNote:
			r.idle++
		default:
			key := remarkNumber.ReplaceAllString(text, "#")
			r.meet(key, &remark{text: text, parts: n, varied: varied, after: after})
			after = key
		}
	}
}

// at records that parts hold at times from from to to.
func (r *remarks) at(from, to float64) {
	if !r.timed {
		r.timed, r.from, r.to = true, from, to
	}
	r.from, r.to = min(r.from, from), max(r.to, to)
}

// meet counts a remark of parts.
func (r *remarks) meet(key string, o *remark) {
	if r.by == nil {
		r.by = map[string]*remark{}
	}
	m, ok := r.by[key]
	if !ok {
		own := *o
		r.by[key] = &own
		return
	}
	m.parts += o.parts
	m.mixed = m.mixed || o.mixed || m.after != o.after
	m.varied = m.varied || o.varied || m.text != o.text
	if larger(o.text, m.text) {
		m.text = o.text
	}
}

// larger reports whether a has larger numbers than b, comparing the first ones first.
func larger(a, b string) bool {
	x, y := remarkNumber.FindAllString(a, -1), remarkNumber.FindAllString(b, -1)
	for k := range min(len(x), len(y)) {
		u, _ := strconv.ParseFloat(strings.ReplaceAll(x[k], ",", ""), 64)
		v, _ := strconv.ParseFloat(strings.ReplaceAll(y[k], ",", ""), 64)
		if u != v {
			return u > v
		}
	}
	return a < b
}

// merge adds the parts of o, which is not changed.
func (r *remarks) merge(o *remarks) {
	if r.parts == 0 {
		r.only = o.only
	}
	r.parts += o.parts
	r.merged, r.diverged, r.skipped = r.merged || o.merged, r.diverged || o.diverged, r.skipped || o.skipped
	r.idle += o.idle
	r.left += o.left
	if o.timed {
		r.at(o.from, o.to)
	}
	for key, m := range o.by {
		r.meet(key, m)
	}
}

// clone returns a copy with memory of its own.
func (r *remarks) clone() remarks {
	c := *r
	c.by = maps.Clone(r.by)
	for key, m := range c.by {
		own := *m
		c.by[key] = &own
	}
	return c
}

// size is the memory held in bytes.
func (r *remarks) size() (n int64) {
	for key, m := range r.by {
		n += 120 + int64(len(key)+len(m.text))
	}
	return n
}

// note records in the product f what its parts say, after own, the note on f itself. The status of
// a single part is not changed.
func (r *remarks) note(f *Fit, own string) {
	f.Converged, f.Status = !r.diverged, Join(own, "")
	if r.parts == 1 {
		f.Status = Join(own, r.only)
		return
	}
	if r.idle == r.parts && !r.merged {
		f.AddStatus(WeightlessNote)
	}
	if r.skipped {
		f.AddStatus(SkippedNote(f.Skipped))
	}
	if r.from < r.to {
		f.AddStatus(fmt.Sprintf("the fits hold at times from %v to %v, and are multiplied as if nothing drifted between them: variances of weights that drift are too small", r.from, r.to))
	}
	said, left := 0, r.left
	for _, block := range r.blocks() {
		if said >= mostRemarks {
			left += int64(len(block))
			continue
		}
		said += len(block)
		f.AddStatus(r.head(block) + r.texts(block))
	}
	switch left {
	case 0:
	case 1:
		f.AddStatus("and 1 other sentence")
	default:
		f.AddStatus(fmt.Sprintf("and %d other sentences", left))
	}
}

// head says how many parts have the sentences of block.
func (r *remarks) head(block []string) string {
	n, varied := r.by[block[0]].parts, false
	for _, key := range block {
		varied = varied || r.by[key].varied
	}
	head := strconv.FormatInt(n, 10)
	parts, says := "parts", "say"
	if n == 1 {
		says = "says"
	}
	if !r.merged {
		head += fmt.Sprintf(" of %d", r.parts)
	} else if n == 1 {
		parts = "part"
	}
	if head += " " + parts + " " + says; varied {
		head += oneSays
	}
	return head + ": "
}

func (r *remarks) texts(block []string) string {
	var texts []string
	for _, key := range block {
		texts = append(texts, r.by[key].text)
	}
	return strings.Join(texts, "; ")
}

// blocks returns the keys of remarks that always came together, such as the halves of a sentence
// around a semicolon, in order; those of most parts come first.
func (r *remarks) blocks() [][]string {
	follows := map[string][]string{}
	var blocks [][]string
	keys := slices.Sorted(maps.Keys(r.by))
	for _, key := range keys {
		m := r.by[key]
		if before := r.by[m.after]; !m.mixed && before != nil && before.parts == m.parts {
			follows[m.after] = append(follows[m.after], key)
		} else {
			blocks = append(blocks, []string{key})
		}
	}
	for k, block := range blocks {
		for at := 0; at < len(block); at++ {
			block = append(block, follows[block[at]]...)
		}
		blocks[k] = block
	}
	slices.SortStableFunc(blocks, func(a, b []string) int {
		return cmp.Compare(r.by[b[0]].parts, r.by[a[0]].parts)
	})
	return blocks
}
