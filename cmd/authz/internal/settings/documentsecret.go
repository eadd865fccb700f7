package settings

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// ClientSecret returns the secret under the key client-secret, or in the file under
// client-secret-file; "" if neither is set. Both together, and a secret that is too short, are
// mistakes.
func (d *Document) ClientSecret(keys map[string]Field) string {
	line, key, secret := d.clientSecret(keys)
	return d.checkSecret(line, key, secret)
}

// GivenSecret is ClientSecret for a secret that another server has chosen, of any length.
func (d *Document) GivenSecret(keys map[string]Field) string {
	_, _, secret := d.clientSecret(keys)
	return secret
}

// clientSecret returns the secret with the key and the line where it is named.
func (d *Document) clientSecret(keys map[string]Field) (line int, key, secret string) {
	own, ownGiven := keys["client-secret"]
	file, fileGiven := keys["client-secret-file"]
	switch {
	case ownGiven && fileGiven:
		d.Fail(file.Line, "client_secret and client_secret_file are both set: keep one")
	case ownGiven:
		d.inline = true
		return own.Line, "client_secret", d.Text(own, "client_secret")
	case fileGiven:
		return file.Line, "client_secret_file", d.SecretFile(file, "client_secret_file")
	}
	return 0, "", ""
}

const (
	// MinSecret is the least number of characters of a secret of a client or resource server.
	// Only its length protects a secret from guessing.
	MinSecret = 16
	// goodSecret is the recommended number of characters.
	goodSecret = 32
)

// checkSecret returns a secret. One below MinSecret is a mistake, one below goodSecret causes
// a warning.
func (d *Document) checkSecret(line int, key, secret string) string {
	n := utf8.RuneCountInString(secret)
	switch {
	case n == 0 || n >= goodSecret:
	case n < MinSecret:
		d.Fail(line, "%s has %d characters, it must have at least %d: make one with openssl rand -base64 32", key, n, MinSecret)
	default:
		d.Doubts = append(d.Doubts, fmt.Sprintf("%s:%d: %s has only %d characters: make one with openssl rand -base64 32", d.name, line, key, n))
	}
	return secret
}

// SecretFile returns the secret in the file that a key names, "" if it cannot be read, which is a
// mistake.
func (d *Document) SecretFile(f Field, key string) string {
	name := d.Text(f, key)
	if name == "" {
		return ""
	}
	d.secrets = append(d.secrets, secretPlace{key, name})
	text, err := SecretFrom(name)
	if err != nil {
		d.Fail(f.Line, "%s: %v", key, err)
	}
	return text
}

// JSONFile returns the content of the JSON file that a key names, which has at most 64 KiB.
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
