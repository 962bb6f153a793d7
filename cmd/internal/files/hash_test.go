package files

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// Files are hashed one after the other; of a large one its length and its ends.
func TestHash(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for name, text := range map[string]string{a: "first", b: "0123456789"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sum := func(text string) string {
		h := sha256.Sum256([]byte(text))
		return hex.EncodeToString(h[:])
	}
	if got, err := Hash([]string{a, b}); err != nil || got != sum("first0123456789") {
		t.Error(got, err)
	}
	if got, err := hash([]string{a, b}, 9, 3); err != nil || got != sum("first10\n012789")+", of the ends of the files" {
		t.Error(got, err)
	}
	if got, err := Hash([]string{a, filepath.Join(dir, "none")}); err != nil || got != "" {
		t.Error(got, err)
	}
}
