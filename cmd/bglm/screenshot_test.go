package main

import (
	"image"
	"image/color"
	_ "image/png" // the decoder
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The report's page as a browser draws it, light and dark: pictures that are not
// empty, of the colours asked for, with the curves and points of the plots on them. The
// pictures stay in BGLM_SCREENSHOTS, where that is set, to be inspected.
func TestReportScreenshot(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("BGLM_SCREENSHOTS") != "" {
			t.Fatal(err)
		}
		t.Skip("no chromium here; BGLM_SCREENSHOTS=DIR makes that an error")
	}
	if testing.Short() {
		t.Skip("a browser takes seconds")
	}
	dir := t.TempDir()
	out := os.Getenv("BGLM_SCREENSHOTS")
	if out == "" {
		out = dir
	} else if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	data := rowsFile(t, "rows.parquet")
	page := filepath.Join(dir, "r.html")
	ok(t, "fit", data, "-f", "y ~ ad + x", "-o", "link=probit", "-o", "time=day", "-o", "process_noise=0.01", "--out", filepath.Join(dir, "b.parquet"), "-q")
	ok(t, "report", "-b", filepath.Join(dir, "b.parquet"), data, "--out", page, "-q")
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), browser, append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
			"--user-data-dir=" + filepath.Join(dir, "profile")}, args...)...)
		text, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", browser, err)
		}
		return string(text)
	}
	// What the browser made of the page: nothing was lost in parsing.
	dom := run("--dump-dom", "file://"+page)
	for _, want := range []string{`id="card"`, `id="fitness"`, `id="worst"`, "<svg", "y ~ ad + x"} {
		if !strings.Contains(dom, want) {
			t.Errorf("the browser's page lacks %s", want)
		}
	}
	shot := func(name, scheme string) image.Image {
		file, err := filepath.Abs(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		run("--blink-settings=preferredColorScheme="+scheme, "--window-size=1200,4000", "--screenshot="+file, "file://"+page)
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		m, _, err := image.Decode(f)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, c := range []struct {
		name, scheme string
		dark         bool
	}{{"report-light.png", "1", false}, {"report-dark.png", "0", true}} {
		m := shot(c.name, c.scheme)
		b := m.Bounds()
		if b.Dx() != 1200 || b.Dy() != 4000 {
			t.Errorf("%s: %v", c.name, b)
		}
		back := color.GrayModel.Convert(m.At(2, 2)).(color.Gray).Y
		if dark := back < 80; dark != c.dark {
			t.Errorf("%s: the background has brightness %d", c.name, back)
		}
		// Ink: what is not background; colours: more than text has.
		ink, hues := 0, map[[3]uint32]bool{}
		for y := b.Min.Y; y < b.Max.Y; y += 2 {
			for x := b.Min.X; x < b.Max.X; x += 2 {
				r, g, bl, _ := m.At(x, y).RGBA()
				r, g, bl = r>>12, g>>12, bl>>12
				if d := int(color.GrayModel.Convert(m.At(x, y)).(color.Gray).Y) - int(back); d > 40 || d < -40 {
					ink++
				}
				if max(r, g, bl)-min(r, g, bl) >= 3 {
					hues[[3]uint32{r, g, bl}] = true
				}
			}
		}
		share := float64(ink) / float64(b.Dx()*b.Dy()/4)
		if share < 0.005 || share > 0.5 || len(hues) < 3 {
			t.Errorf("%s: %.1f %% of it is drawn, in %d colours", c.name, 100*share, len(hues))
		}
		t.Logf("%s: %.1f %% drawn, %d colours", c.name, 100*share, len(hues))
	}
}
