package chart

import (
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// pictureWidth is how many pixels wide a picture is.
const pictureWidth = 1280

// pictureScale is how many pixels of a picture one of SVG is.
const pictureScale = float64(pictureWidth) / chartWidth

// faces are the fonts of a picture: of text and of titles.
var faces = sync.OnceValue(func() (f struct{ plain, title font.Face }) {
	face := func(ttf []byte, size float64) font.Face {
		t, err := opentype.Parse(ttf)
		if err != nil {
			panic(err) // the font is part of the program
		}
		out, err := opentype.NewFace(t, &opentype.FaceOptions{Size: size * pictureScale, DPI: 72})
		if err != nil {
			panic(err)
		}
		return out
	}
	f.plain, f.title = face(goregular.TTF, 13), face(gobold.TTF, 15)
	return f
})

// drawing guards the fonts, which are not for several at a time.
var drawing sync.Mutex

// textWidth is about how many pixels of SVG a text is wide.
func textWidth(s string) float64 {
	drawing.Lock()
	defer drawing.Unlock()
	return float64(font.MeasureString(faces().plain, s)) / 64 / pictureScale
}

// PNG draws what SVG does, as a picture of 1280 pixels width.
func (c *Chart) PNG(w io.Writer) error {
	d := c.draw(true)
	p := picture{img: image.NewRGBA(image.Rect(0, 0, pictureWidth, int(d.height*pictureScale)))}
	draw.Draw(p.img, p.img.Bounds(), image.White, image.Point{}, draw.Src)
	for _, s := range d.shapes {
		class, _, _ := strings.Cut(s.class, " ")
		col := colourOf(class)
		path := make([]dot, len(s.x))
		for i := range s.x {
			path[i] = dot{s.x[i] * pictureScale, s.y[i] * pictureScale}
		}
		switch s.kind {
		case "line", "polyline":
			p.stroke(path, class, col)
		case "polygon":
			col.A = 0x2e // an opacity of 0.18
			p.fill(path, col)
		case "circle":
			p.disc(path[0], dotRadius*pictureScale, col)
		case "text":
			p.text(&s, path[0], col)
		}
	}
	return png.Encode(w, p.img)
}

// dot is a place of a picture.
type dot struct{ x, y float64 }

// near says whether a place can be drawn: numbers, not far outside the picture.
func (p dot) near() bool { return math.Abs(p.x) < 1e5 && math.Abs(p.y) < 1e5 }

// picture is drawn shape by shape.
type picture struct {
	img    *image.RGBA
	raster vector.Rasterizer
}

// fill fills a polygon.
func (p *picture) fill(ring []dot, col color.NRGBA) {
	if len(ring) < 3 || slices.ContainsFunc(ring, func(q dot) bool { return !q.near() }) {
		return
	}
	// A rasterizer's cost is its area, so it gets the polygon's and not the picture's.
	var b image.Rectangle
	for _, q := range ring {
		x, y := int(math.Floor(q.x)), int(math.Floor(q.y))
		b = b.Union(image.Rect(x, y, x+2, y+2))
	}
	if b = b.Intersect(p.img.Bounds()); b.Empty() {
		return
	}
	p.raster.Reset(b.Dx(), b.Dy())
	for k, q := range ring {
		x, y := float32(q.x-float64(b.Min.X)), float32(q.y-float64(b.Min.Y))
		if k == 0 {
			p.raster.MoveTo(x, y)
		} else {
			p.raster.LineTo(x, y)
		}
	}
	p.raster.ClosePath()
	p.raster.Draw(p.img, b, image.NewUniform(col), image.Point{})
}

func (p *picture) disc(at dot, radius float64, col color.NRGBA) {
	ring := make([]dot, 24)
	for k := range ring {
		sin, cos := math.Sincos(2 * math.Pi * float64(k) / float64(len(ring)))
		ring[k] = dot{at.x + radius*cos, at.y + radius*sin}
	}
	p.fill(ring, col)
}

// stroke draws a line through places: thin for the grid, broken for a reference.
func (p *picture) stroke(through []dot, class string, col color.NRGBA) {
	width := 2.0 * pictureScale
	if class == "grid" {
		width = pictureScale
	}
	const on, period = 5 * pictureScale, 9 * pictureScale
	gone := 0.0 // of the line
	for k := 1; k < len(through); k++ {
		a, b := through[k-1], through[k]
		length := math.Hypot(b.x-a.x, b.y-a.y)
		if !(length > 0) || !a.near() || !b.near() {
			continue
		}
		ux, uy := (b.x-a.x)/length, (b.y-a.y)/length
		piece := func(lo, hi float64) {
			nx, ny := -uy*width/2, ux*width/2
			p.fill([]dot{{a.x + lo*ux + nx, a.y + lo*uy + ny}, {a.x + hi*ux + nx, a.y + hi*uy + ny},
				{a.x + hi*ux - nx, a.y + hi*uy - ny}, {a.x + lo*ux - nx, a.y + lo*uy - ny}}, col)
		}
		if class != "ref" {
			piece(0, length)
			if k > 1 {
				p.disc(a, width/2, col)
			}
			continue
		}
		for lo := -math.Mod(gone, period); lo < length; lo += period {
			if from, to := max(lo, 0), min(lo+on, length); from < to {
				piece(from, to)
			}
		}
		gone += length
	}
}

// text writes at a place, from left to right or upwards.
func (p *picture) text(s *shape, at dot, col color.NRGBA) {
	drawing.Lock()
	defer drawing.Unlock()
	d := font.Drawer{Src: image.NewUniform(col), Face: faces().plain}
	if s.class == "title" {
		d.Face = faces().title
	}
	wide := float64(d.MeasureString(s.text)) / 64
	from := 0.0
	switch s.anchor {
	case "middle":
		from = -wide / 2
	case "end":
		from = -wide
	}
	if !s.turned {
		d.Dst, d.Dot = p.img, fixed.P(int(at.x+from), int(at.y))
		d.DrawString(s.text)
		return
	}
	const size = 96 // of a line, above and below
	side := image.NewRGBA(image.Rect(0, 0, int(wide)+1, size))
	d.Dst, d.Dot = side, fixed.P(0, size/2)
	d.DrawString(s.text)
	up := image.NewRGBA(image.Rect(0, 0, size, int(wide)+1))
	for i := range int(wide) + 1 {
		for j := range size {
			up.Set(j, int(wide)-i, side.At(i, j))
		}
	}
	draw.Draw(p.img, up.Bounds().Add(image.Pt(int(at.x)-size/2, int(at.y-from-wide))), up, image.Point{}, draw.Over)
}

// colourOf is the colour of a class on a light ground.
func colourOf(class string) color.NRGBA {
	switch class {
	case "grid":
		return parseColour("#e3e6ea")
	case "ref":
		return parseColour("#888888")
	}
	if k, err := strconv.Atoi(strings.TrimPrefix(class, "s")); err == nil && k < len(Palette) {
		return parseColour(Palette[k])
	}
	return parseColour("#333333")
}

func parseColour(hex string) color.NRGBA {
	v, _ := strconv.ParseUint(hex[1:], 16, 32)
	return color.NRGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 0xff}
}
