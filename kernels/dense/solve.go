package dense

// SolveLower sets B = L⁻¹ B for lower triangular L, n x n, and B, n x k. L is not read above its
// diagonal. A zero on the diagonal gives infinities or NaN. B must not overlap L.
//
// Cost: n² k operations. L is halved until its blocks are small, so that most of the work is in
// products. Rows are multiplied by the reciprocal of the diagonal rather than divided.
func SolveLower(l, b *Matrix) {
	l.shape("l", b.Rows, b.Rows)
	b.check("b")
	b.adopt(l)
	if b.Cols == 1 {
		column(l, b, SolveLowerVec)
		return
	}
	solve(*l, *b, left)
}

// SolveLowerT sets B = L⁻ᵀ B, and is otherwise like SolveLower.
func SolveLowerT(l, b *Matrix) {
	l.shape("l", b.Rows, b.Rows)
	b.check("b")
	b.adopt(l)
	if b.Cols == 1 {
		column(l, b, SolveLowerTVec)
		return
	}
	solve(*l, *b, leftT)
}

// column applies f to the only column of b.
func column(l, b *Matrix, f func(l *Matrix, b []float64)) {
	x := make([]float64, b.Rows)
	for i := range x {
		x[i] = b.Data[i*b.Stride]
	}
	f(l, x)
	for i, v := range x {
		b.Data[i*b.Stride] = v
	}
}

// SolveLowerVec sets b = L⁻¹ b.
func SolveLowerVec(l *Matrix, b []float64) {
	l.shape("l", len(b), len(b))
	for i := 0; i < len(b); {
		for end := l.upTo(i, len(b)); i < end; i++ {
			li := l.Row(i)
			b[i] = (b[i] - dot(li[:i], b[:i])) / li[i]
		}
	}
}

// SolveLowerTVec sets b = L⁻ᵀ b. It also reads L by rows.
func SolveLowerTVec(l *Matrix, b []float64) {
	l.shape("l", len(b), len(b))
	for k := 0; k < len(b); {
		for end := l.upTo(k, len(b)); k < end; k++ {
			i := len(b) - 1 - k
			li := l.Row(i)
			b[i] /= li[i]
			axpy(-b[i], li[:i], b[:i])
		}
	}
}

// side is the form of a triangular solve.
type side int

const (
	left  side = iota // B = L⁻¹ B
	leftT             // B = L⁻ᵀ B
	right             // B = B L⁻ᵀ
)

// solveBase is the order up to which a triangular system is solved in packed panels.
const solveBase = 64

func solveRight(l, b Matrix) { solve(l, b, right) }

func solve(l, b Matrix, s side) {
	n := l.Rows
	if b.Rows == 0 || b.Cols == 0 {
		return
	}
	if n <= solveBase {
		solveBlock(l, b, s)
		return
	}
	h := half(n, solveBase)
	l11, l21, l22 := l.view(0, h, 0, h), l.view(h, n, 0, h), l.view(h, n, h, n)
	var b1, b2 Matrix
	if s == right {
		b1, b2 = b.view(0, b.Rows, 0, h), b.view(0, b.Rows, h, n)
	} else {
		b1, b2 = b.view(0, h, 0, b.Cols), b.view(h, n, 0, b.Cols)
	}
	switch s {
	case left:
		solve(l11, b1, s)
		Gemm(&b2, -1, &l21, false, &b1, false, 1)
		solve(l22, b2, s)
	case leftT:
		solve(l22, b2, s)
		Gemm(&b1, -1, &l21, true, &b2, false, 1)
		solve(l11, b1, s)
	case right:
		solve(l11, b1, s)
		Gemm(&b2, -1, &b1, false, &l21, true, 1)
		solve(l22, b2, s)
	}
}

// solveBlock solves for a small L. The right-hand sides are the columns of B, or its rows for
// right; they are independent, and panelCols of them at a time are packed side by side.
func solveBlock(l, b Matrix, s side) {
	n := l.Rows
	count := b.Cols
	if s == right {
		count = b.Rows
	}
	sp := scratch.Get().(*space)
	t := triangle{n: n, minus: grow(sp.a, n*n), inverse: sp.scale[:n]}
	sp.a = t.minus
	for i := range n {
		row := l.Row(i)
		for j, v := range row[:i] {
			t.minus[i*n+j] = -v
		}
		t.inverse[i] = 1 / row[i]
	}
	panels := ceil(count, panelCols)
	tasks(panels, min(workersFor(float64(n*n)*float64(count)), ceil(panels, 4)), func(i int) {
		b.Stop.Check()
		sp := scratch.Get().(*space)
		c0 := i * panelCols
		c1 := min(c0+panelCols, count)
		width := roundUp(c1-c0, lanes)
		sp.b = grow(sp.b, n*width)
		x := sp.b
		if s == right {
			for r := c0; r < c1; r += lanes {
				packTrans(x[r-c0:], width, b.Data[r*b.Stride:], b.Stride, min(lanes, c1-r), n)
			}
			t.forward(x, width)
			unpackTrans(b.view(c0, c1, 0, n), x, width)
		} else {
			packRows(x, width, 0, b.Data[c0:], b.Stride, n, c1-c0, ones[:n])
			if s == left {
				t.forward(x, width)
			} else {
				t.backward(x, width)
			}
			for r := range n {
				copy(b.Data[r*b.Stride+c0:r*b.Stride+c1], x[r*width:])
			}
		}
		scratch.Put(sp)
	})
	scratch.Put(sp)
}

var ones = func() (x [solveBase]float64) {
	for i := range x {
		x[i] = 1
	}
	return x
}()

// unpackTrans sets dst to the transpose of x, with rows of the given width.
func unpackTrans(dst Matrix, x []float64, width int) {
	whole := dst.Cols &^ (lanes - 1)
	for c := 0; c < whole; c += lanes {
		packTrans(dst.Data[c:], dst.Stride, x[c*width:], width, lanes, dst.Rows)
	}
	for r := range dst.Rows {
		row := dst.Row(r)
		for c := whole; c < len(row); c++ {
			row[c] = x[c*width+r]
		}
	}
}

// triangle is a small lower triangular L: the part below the diagonal with its sign changed, n
// numbers per row, and the reciprocals of the diagonal.
type triangle struct {
	n              int
	minus, inverse []float64
}

// forward sets X = L⁻¹ X for a packed panel with rows of the given width: the rows above are
// subtracted from blockRows rows at a time, which are then solved one by one.
func (t *triangle) forward(x []float64, width int) {
	n := t.n
	for i := 0; i < n; i += blockRows {
		m := min(blockRows, n-i)
		if i > 0 {
			block(m, width, x[i*width:], width, t.minus[i*n:], n, 1, x, width, i, nil, 0)
		}
		for r := i; r < i+m; r++ {
			if r > i {
				block(1, width, x[r*width:], width, t.minus[r*n+i:], n, 1, x[i*width:], width, r-i, nil, 0)
			}
			t.divide(x, width, r)
		}
	}
}

// backward sets X = L⁻ᵀ X.
func (t *triangle) backward(x []float64, width int) {
	n := t.n
	for end := n; end > 0; {
		i := (end - 1) / blockRows * blockRows
		if end < n {
			block(end-i, width, x[i*width:], width, t.minus[end*n+i:], 1, n, x[end*width:], width, n-end, nil, 0)
		}
		for r := end - 1; r >= i; r-- {
			if r+1 < end {
				block(1, width, x[r*width:], width, t.minus[(r+1)*n+r:], 1, n, x[(r+1)*width:], width, end-r-1, nil, 0)
			}
			t.divide(x, width, r)
		}
		end = i
	}
}

func (t *triangle) divide(x []float64, width, r int) {
	row := x[r*width : (r+1)*width]
	packRows(row, width, 0, row, width, 1, width, t.inverse[r:])
}
