package main

import (
	"bytes"
	"compress/gzip"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
)

// signatureSize is the room at the end of an extension's footer.
const signatureSize = 256

// digest is what DuckDB verifies: SHA-256 of the SHA-256 sums of the file's parts of 1 MiB,
// without the signature at its end.
func digest(extension []byte) [32]byte {
	const part = 1 << 20
	body := extension[:len(extension)-signatureSize]
	var sums []byte
	for lo := 0; lo < len(body); lo += part {
		s := sha256.Sum256(body[lo:min(lo+part, len(body))])
		sums = append(sums, s[:]...)
	}
	return sha256.Sum256(sums)
}

// sign returns the extension with its signature: RSA PKCS #1 v1.5 of the digest.
func sign(extension []byte, key *rsa.PrivateKey) ([]byte, error) {
	if key.Size() != signatureSize {
		return nil, fmt.Errorf("found a key of %d bits; allowed: %d", 8*key.Size(), 8*signatureSize)
	}
	if len(extension) < 2*signatureSize || !bytes.Equal(extension[len(extension)-signatureSize:], make([]byte, signatureSize)) {
		return nil, fmt.Errorf("found an extension that is signed already, or none")
	}
	d := digest(extension)
	s, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, d[:])
	if err != nil {
		return nil, err
	}
	return append(bytes.Clone(extension[:len(extension)-signatureSize]), s...), nil
}

func readKey(path string) (*rsa.PrivateKey, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("%s: found no PEM block", path)
	}
	if k, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return k, nil
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r, ok := k.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: found a %T; allowed: an RSA key", path, k)
	}
	return r, nil
}

// repository writes out/repository, a directory for CREATE EXTENSION REPOSITORY bglm WITH
// PREFIX 'https://...': VERSION/PLATFORM/bglm.duckdb_extension.gz for each release of
// DuckDB, and the public key where DuckDB looks for it.
func repository(out, keyFile, platform string, duckdb []string) error {
	key, err := readKey(keyFile)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(out, extensionFile))
	if err != nil {
		return err
	}
	if b, err = sign(b, key); err != nil {
		return err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, v := range duckdb {
		files[filepath.Join(v, platform, extensionFile+".gz")] = packed.Bytes()
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	public := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	if files[".well-known/duckdb-extension-repo.json"], err = json.MarshalIndent(map[string][]string{"signature_keys": {public}}, "", " "); err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(out, "repository", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
