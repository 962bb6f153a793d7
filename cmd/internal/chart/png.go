package chart

import (
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// PNG draws what SVG does, as a picture of 1280 pixels width.
func (c *Chart) PNG(w io.Writer) error {
	face, err := textFace()
	if err != nil {
		return err
	}
	p := &picture{face: face}
	for d := xml.NewDecoder(strings.NewReader(c.SVG(true))); ; {
		tok, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return png.Encode(w, p.img)
		case err != nil:
			return fmt.Errorf("drawing %s: %w", c.ID, err)
		}
		switch e := tok.(type) {
		case xml.StartElement:
			p.element = element{name: e.Name.Local}
			for _, a := range e.Attr {
				p.attr = append(p.attr, a.Value)
				p.attrName = append(p.attrName, a.Name.Local)
			}
			p.draw()
		case xml.CharData:
			if p.name == "text" {
				p.text(string(e))
			}
		case xml.EndElement:
			p.name = ""
		}
	}
}

// pictureScale is how many pixels of a picture one of SVG is.
const pictureScale = 2

// textFace is the font of a picture, of 12 pixels of SVG.
func textFace() (font.Face, error) {
	f, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return nil, err
	}
	return opentype.NewFace(f, &opentype.FaceOptions{Size: 12 * pictureScale, DPI: 72})
}

// element is one of the few kinds that SVG writes.
type element struct {
	name           string
	attrName, attr []string
}

func (e *element) get(name string) string {
	for k, n := range e.attrName {
		if n == name {
			return e.attr[k]
		}
	}
	return ""
}

// at is a number of the element in pixels of the picture.
func (e *element) at(name string) float64 {
	v, _ := strconv.ParseFloat(e.get(name), 64)
	return v * pictureScale
}

func (e *element) has(class string) bool {
	return strings.Contains(" "+e.get("class")+" ", " "+class+" ")
}

type point struct{ x, y float64 }

// near says whether a point can be drawn: a number, not far outside the picture.
func (p point) near() bool { return math.Abs(p.x) < 1e5 && math.Abs(p.y) < 1e5 }

func (e *element) points() (out []point) {
	for _, s := range strings.Fields(e.get("points")) {
		var p point
		if _, err := fmt.Sscanf(s, "%f,%f", &p.x, &p.y); err == nil && p.near() {
			out = append(out, point{p.x * pictureScale, p.y * pictureScale})
		}
	}
	return out
}

// colour is that of the element's class.
func (e *element) colour() color.NRGBA {
	for k, hex := range Palette {
		if e.has(fmt.Sprintf("s%d", k)) {
			return parseColour(hex)
		}
	}
	return color.NRGBA{0x88, 0x88, 0x88, 0xff} // a reference
}

// picture is drawn element by element.
type picture struct {
	img  *image.RGBA
	face font.Face
	element
}

func (p *picture) draw() {
	switch p.name {
	case "svg":
		var w, h float64
		fmt.Sscanf(p.get("viewBox"), "0 0 %f %f", &w, &h)
		p.img = image.NewRGBA(image.Rect(0, 0, int(w*pictureScale), int(h*pictureScale)))
		draw.Draw(p.img, p.img.Bounds(), image.White, image.Point{}, draw.Src)
	case "rect":
		if x, y, w, h := p.at("x"), p.at("y"), p.at("width"), p.at("height"); p.has("key") {
			p.fill([]point{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}, p.colour())
		}
	case "line":
		p.stroke([]point{{p.at("x1"), p.at("y1")}, {p.at("x2"), p.at("y2")}})
	case "polyline":
		p.stroke(p.points())
	case "polygon":
		col := p.colour()
		col.A = 0x2e // an opacity of 0.18
		p.fill(p.points(), col)
	case "circle":
		p.disc(point{p.at("cx"), p.at("cy")}, p.at("r"), p.colour())
	}
}

// fill fills a polygon.
func (p *picture) fill(ring []point, col color.NRGBA) {
	if len(ring) < 3 || slices.ContainsFunc(ring, func(q point) bool { return !q.near() }) {
		return
	}
	b := p.img.Bounds()
	r := vector.NewRasterizer(b.Dx(), b.Dy())
	for k, q := range ring {
		if k == 0 {
			r.MoveTo(float32(q.x), float32(q.y))
		} else {
			r.LineTo(float32(q.x), float32(q.y))
		}
	}
	r.ClosePath()
	r.Draw(p.img, b, image.NewUniform(col), image.Point{})
}

func (p *picture) disc(at point, radius float64, col color.NRGBA) {
	ring := make([]point, 24)
	for k := range ring {
		sin, cos := math.Sincos(2 * math.Pi * float64(k) / float64(len(ring)))
		ring[k] = point{at.x + radius*cos, at.y + radius*sin}
	}
	p.fill(ring, col)
}

// stroke draws a line through points: thin for the grid, broken for a reference.
func (p *picture) stroke(through []point) {
	width, col := 2.0*pictureScale, p.colour()
	if p.has("grid") {
		width, col = pictureScale, color.NRGBA{0xe3, 0xe6, 0xea, 0xff}
	}
	const on, period = 5 * pictureScale, 9 * pictureScale
	gone := 0.0 // of the line
	for k := 1; k < len(through); k++ {
		a, b := through[k-1], through[k]
		length := math.Hypot(b.x-a.x, b.y-a.y)
		if length == 0 {
			continue
		}
		ux, uy := (b.x-a.x)/length, (b.y-a.y)/length
		piece := func(lo, hi float64) {
			nx, ny := -uy*width/2, ux*width/2
			p.fill([]point{{a.x + lo*ux + nx, a.y + lo*uy + ny}, {a.x + hi*ux + nx, a.y + hi*uy + ny},
				{a.x + hi*ux - nx, a.y + hi*uy - ny}, {a.x + lo*ux - nx, a.y + lo*uy - ny}}, col)
		}
		if !p.has("ref") {
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

// text writes s at the element's place, or upwards around where it is moved to.
func (p *picture) text(s string) {
	d := font.Drawer{Src: image.NewUniform(color.NRGBA{0x44, 0x44, 0x44, 0xff}), Face: p.face}
	wide := float64(d.MeasureString(s)) / 64
	from := 0.0
	switch p.get("text-anchor") {
	case "middle":
		from = -wide / 2
	case "end":
		from = -wide
	}
	var x, y float64
	if n, _ := fmt.Sscanf(p.get("transform"), "translate(%f %f)", &x, &y); n < 2 {
		d.Dst, d.Dot = p.img, fixed.P(int(p.at("x")+from), int(p.at("y")))
		d.DrawString(s)
		return
	}
	x, y = x*pictureScale, y*pictureScale
	size := 2 * 12 * pictureScale
	side := image.NewRGBA(image.Rect(0, 0, int(wide)+1, size))
	d.Dst, d.Dot = side, fixed.P(0, size/2)
	d.DrawString(s)
	up := image.NewRGBA(image.Rect(0, 0, size, int(wide)+1))
	for i := range int(wide) + 1 {
		for j := range size {
			up.Set(j, int(wide)-i, side.At(i, j))
		}
	}
	draw.Draw(p.img, up.Bounds().Add(image.Pt(int(x)-size/2, int(y-from-wide))), up, image.Point{}, draw.Over)
}

func parseColour(hex string) color.NRGBA {
	v, _ := strconv.ParseUint(hex[1:], 16, 32)
	return color.NRGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 0xff}
}
