package settings

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// ClientSecret reads client-secret or the file that client-secret-file names.
func (d *Document) ClientSecret(keys map[string]Field) string {
	own, ownGiven := keys["client-secret"]
	file, fileGiven := keys["client-secret-file"]
	switch {
	case ownGiven && fileGiven:
		d.Fail(file.Line, "client_secret and client_secret_file are both set: keep one")
	case ownGiven:
		d.inline = true
		return d.strong(own.Line, "client_secret", d.Text(own, "client_secret"))
	case fileGiven:
		return d.strong(file.Line, "client_secret_file", d.secretFile(file))
	}
	return ""
}

const (
	// LeastSecret is how many characters a secret of a client or resource server must
	// have: its length is what stands against guessing.
	LeastSecret = 16
	// goodSecret is how many it should have.
	goodSecret = 32
)

// strong refuses a secret that can be guessed, and warns of one that is short.
func (d *Document) strong(line int, key, secret string) string {
	n := utf8.RuneCountInString(secret)
	switch {
	case n == 0 || n >= goodSecret:
	case n < LeastSecret:
		d.Fail(line, "%s has %d characters, it must have at least %d: make one with openssl rand -base64 32", key, n, LeastSecret)
	default:
		d.Doubts = append(d.Doubts, fmt.Sprintf("%s:%d: %s has only %d characters: make one with openssl rand -base64 32", d.name, line, key, n))
	}
	return secret
}

func (d *Document) secretFile(f Field) string {
	name := d.Text(f, "client_secret_file")
	if name == "" {
		return ""
	}
	d.secrets = append(d.secrets, secretPlace{"client_secret_file", name})
	text, err := SecretFrom(name)
	if err != nil {
		d.Fail(f.Line, "client_secret_file: %v", err)
	}
	return text
}

// JSONFile reads the file that a key names.
func (d *Document) JSONFile(f Field, key string) json.RawMessage {
	name := d.Text(f, key)
	if name == "" {
		return nil
	}
	text, err := ReadAtMost(name, 1<<16)
	switch {
	case err != nil:
		d.Fail(f.Line, "%s: %v", key, err)
	case !json.Valid(text):
		d.Fail(f.Line, "%s: %s is not JSON", key, name)
	}
	return text
}
