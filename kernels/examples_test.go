package kernels_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every public package has an example that runs.
func TestExamples(t *testing.T) {
	example := regexp.MustCompile(`(?m)^func Example`)
	for _, top := range []string{".", "../arrowio", "../udf", "../sql"} {
		err := filepath.WalkDir(top, func(dir string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return err
			}
			switch e.Name() {
			case "internal", "gen", "testdata", "kerneltest", "sqltest", "bench":
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				return fs.SkipDir // a module of its own, whose example is its command
			}
			files, err := filepath.Glob(filepath.Join(dir, "*.go"))
			if err != nil || len(files) == 0 {
				return err
			}
			found := false
			for _, path := range files {
				if strings.HasSuffix(path, "_test.go") {
					text, err := os.ReadFile(path)
					if err != nil {
						return err
					}
					found = found || example.Match(text)
				}
			}
			if !found {
				t.Errorf("package %s has no example", dir)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
