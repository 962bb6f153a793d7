package main

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bglm/bglm/kernels/kerneltest"
)

// TestRepository: the signed extension of the repository verifies with the key that the
// repository publishes, by DuckDB's rule written out, and not when a byte changes.
func TestRepository(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048) // of this test only
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pemFile := filepath.Join(dir, "key.pem")
	if err := os.WriteFile(pemFile, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600); err != nil {
		t.Fatal(err)
	}
	extension := make([]byte, 2<<20+12345)
	if _, err := rand.Read(extension[:len(extension)-256]); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, extensionFile), extension, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := repository(dir, pemFile, "linux_amd64", []string{"v2.0.0", "v2.0.1"}); err != nil {
		t.Fatal(err)
	}
	var published struct {
		Keys []string `json:"signature_keys"`
	}
	b, err := os.ReadFile(filepath.Join(dir, "repository/.well-known/duckdb-extension-repo.json"))
	if err != nil || json.Unmarshal(b, &published) != nil || len(published.Keys) != 1 {
		t.Fatalf("%v: %s", err, b)
	}
	block, _ := pem.Decode([]byte(published.Keys[0]))
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"v2.0.0", "v2.0.1"} {
		got := kerneltest.Gunzip(t, filepath.Join(dir, "repository", v, "linux_amd64", extensionFile+".gz"))
		if len(got) != len(extension) || !bytes.Equal(got[:len(got)-256], extension[:len(got)-256]) {
			t.Fatalf("%d bytes of %d", len(got), len(extension))
		}
		verify := func() error {
			h := sha256.New()
			for _, part := range [][]byte{got[:1<<20], got[1<<20 : 2<<20], got[2<<20 : len(got)-256]} {
				s := sha256.Sum256(part)
				h.Write(s[:])
			}
			return rsa.VerifyPKCS1v15(public.(*rsa.PublicKey), crypto.SHA256, h.Sum(nil), got[len(got)-256:])
		}
		if err := verify(); err != nil {
			t.Error(err)
		}
		got[77] ^= 1
		if verify() == nil {
			t.Error("a changed extension verifies")
		}
	}
	if _, err := sign(append(extension[:len(extension)-1], 1), key); err == nil {
		t.Error("a signed extension is signed again")
	}
	small, err := rsa.GenerateKey(rand.Reader, 3072)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sign(make([]byte, 1000), small); err == nil {
		t.Error("a key of another size signs")
	}
}

// TestMaterials: the bill of materials and the notices name every module of a binary, this
// test's own.
func TestMaterials(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parts, err := components(self)
	if err != nil {
		parts = []component{{"gonum.org/v1/gonum", "v0.17.0", "h1:x"}, {"github.com/apache/arrow-go/v18", "v18.8.0", ""}}
	}
	parts = merge(merge(nil, parts), parts)
	included, err := duckdbParts("../../" + duckdbFolder)
	if err != nil {
		t.Fatal(err)
	}
	library := component{path: duckdbLibrary, version: "v0.1.2"}
	b, err := cycloneDX("v1.2.3", append(parts[:len(parts):len(parts)], library), included)
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		Format     string `json:"bomFormat"`
		Components []struct {
			Name, Version, PURL string
			Components          []struct {
				Name, Ref string
				Licenses  []struct{ Expression string }
			}
		}
	}
	if err := json.Unmarshal(b, &bom); err != nil || bom.Format != "CycloneDX" || len(bom.Components) != len(parts)+2 {
		t.Errorf("%v: %s", err, b)
	}
	for _, c := range bom.Components {
		if c.Name != duckdbLibrary && len(c.Components) > 0 || c.Name == duckdbLibrary && len(c.Components) != len(included) {
			t.Errorf("%s has %d parts", c.Name, len(c.Components))
		}
		for _, d := range c.Components {
			if d.Name == "" || len(d.Licenses) != 1 || d.Licenses[0].Expression == "" {
				t.Errorf("%+v", d)
			}
		}
	}
	n, err := notices(parts, included, "../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if !strings.Contains(string(n), p.path+" "+p.version) {
			t.Errorf("the notices lack %s", p.path)
		}
	}
	for _, d := range included {
		text, err := os.ReadFile(d.text)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(n), d.name+" (in DuckDB, "+d.licence+")\n") || !bytes.Contains(n, bytes.TrimSpace(text)) {
			t.Errorf("the notices lack %s", d.name)
		}
	}
	if !strings.Contains(string(n), "Copyright") || !strings.Contains(string(n), "Apache License") {
		t.Error("the notices hold no licence texts")
	}
}

// TestChecksums: the sums are those of the files, and a binary for a newer system is refused.
func TestChecksums(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b": "bee", "sub/a": "ay"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // its own sums are not summed
		if err := checksums(dir); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	want := fmt.Sprintf("%x  b\n%x  sub/a\n", sha256.Sum256([]byte("bee")), sha256.Sum256([]byte("ay")))
	if err != nil || string(got) != want {
		t.Errorf("got %s (%v), want %s", got, err, want)
	}
	if err := checkFloor(filepath.Join(dir, "b")); err == nil {
		t.Error("a file that is no binary passes")
	}
}
