package chart

import (
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// PNG draws the chart as a picture of 1280 pixels width.
func (c *Chart) PNG(w io.Writer) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.XLabel, c.YLabel
	p.Add(plotter.NewGrid())
	x, y := c.bounds()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = x[0], x[1], y[0], y[1]
	height := float64(chartHeight)
	down := func(v float64) float64 { return v }
	if n := len(c.Names); n > 0 {
		height = 80 + 20*float64(n)
		down = func(v float64) float64 { return float64(n-1) - v }
		names := make([]string, n)
		for i, s := range c.Names {
			names[n-1-i] = s
		}
		p.NominalY(names...)
		p.Y.Min, p.Y.Max = y[0], y[1]
	}
	for k := range c.Series {
		if err := pngSeries(p, &c.Series[k], parseColour(Palette[k%len(Palette)]), down); err != nil {
			return err
		}
	}
	img := vgimg.NewWith(vgimg.UseWH(vg.Length(chartWidth)*vg.Inch/96, vg.Length(height)*vg.Inch/96), vgimg.UseDPI(192))
	p.Draw(draw.New(img))
	_, err := vgimg.PngCanvas{Canvas: img}.WriteTo(w)
	return err
}

// pngSeries adds a series to the plot; down is where the plot has a y.
func pngSeries(p *plot.Plot, s *Series, col color.NRGBA, down func(float64) float64) error {
	pts := make(plotter.XYs, 0, len(s.X))
	for i := range s.Y {
		if !math.IsNaN(s.Y[i]) && !math.IsInf(s.Y[i], 0) {
			pts = append(pts, plotter.XY{X: s.X[i], Y: down(s.Y[i])})
		}
	}
	switch {
	case s.Kind == "band":
		return pngBand(p, s, col)
	case len(pts) == 0:
		return nil
	case s.Kind == "line", s.Kind == "reference":
		l, err := plotter.NewLine(pts)
		if err != nil {
			return err
		}
		l.Width, l.Color = vg.Points(1.5), col
		if s.Kind == "reference" {
			l.Color, l.Dashes = color.Gray{0x88}, []vg.Length{vg.Points(4), vg.Points(3)}
		}
		p.Add(l)
		if s.Label != "" {
			p.Legend.Add(s.Label, l)
		}
		return nil
	}
	sc, err := plotter.NewScatter(pts)
	if err != nil {
		return err
	}
	sc.GlyphStyle = draw.GlyphStyle{Color: col, Radius: vg.Points(3), Shape: draw.CircleGlyph{}}
	for i := range s.Lo {
		a, b := plotter.XY{X: s.X[i], Y: s.Lo[i]}, plotter.XY{X: s.X[i], Y: s.Hi[i]}
		if s.Kind == "interval" {
			a, b = plotter.XY{X: s.Lo[i], Y: down(s.Y[i])}, plotter.XY{X: s.Hi[i], Y: down(s.Y[i])}
		}
		l, err := plotter.NewLine(plotter.XYs{a, b})
		if err != nil {
			return err
		}
		l.Color, l.Width = col, vg.Points(1.5)
		p.Add(l)
	}
	p.Add(sc)
	if s.Label != "" {
		p.Legend.Add(s.Label, sc)
	}
	return nil
}

// pngBand fills what lies between Lo and Hi.
func pngBand(p *plot.Plot, s *Series, col color.NRGBA) error {
	ring := make(plotter.XYs, 0, 2*len(s.X))
	for i := range s.X {
		ring = append(ring, plotter.XY{X: s.X[i], Y: s.Hi[i]})
	}
	for i := len(s.X) - 1; i >= 0; i-- {
		ring = append(ring, plotter.XY{X: s.X[i], Y: s.Lo[i]})
	}
	g, err := plotter.NewPolygon(ring)
	if err != nil {
		return err
	}
	col.A = 0x30
	g.Color, g.LineStyle.Width = col, 0
	p.Add(g)
	return nil
}

func parseColour(hex string) color.NRGBA {
	v, _ := strconv.ParseUint(hex[1:], 16, 32)
	return color.NRGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 0xff}
}
