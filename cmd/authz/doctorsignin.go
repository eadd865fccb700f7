package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"gatehouse.example/cmd/authz/internal/settings"
	"gatehouse.example/doctor"
)

// doctorSignIn are the flags with which the doctor sees what needs a token.
type doctorSignIn struct {
	SignIn    bool   `xor:"with" help:"Sign in with a browser, and try what needs a token: with a grant of the doctor's own, which is revoked in the end."`
	ClientID  string `name:"client-id" placeholder:"ID" help:"With --sign-in, a client to be instead of registering: public, with the redirect URI http://127.0.0.1/callback at any port."`
	Token     string `placeholder:"TOKEN" xor:"with" help:"A token for the server, in place of a person. Other users of the machine may see it; AUTHZ_TOKEN and --token-file are safer."`
	TokenFile string `placeholder:"FILE" xor:"with" help:"A file with such a token; - is standard input."`
}

// options returns what the flags ask for, nil if that is nothing.
func (v *doctorSignIn) options(p *program, server bool) (*doctor.SignIn, error) {
	token, err := v.token(p)
	switch {
	case err != nil:
		return nil, err
	case v.ClientID != "" && !v.SignIn:
		return nil, errors.New("--client-id is of use with --sign-in only")
	case v.SignIn:
		return &doctor.SignIn{ClientID: v.ClientID, Open: func(url string) error { return open(p, url) }}, nil
	case token != "" && server:
		return nil, errors.New("a token is for the URL of a server, not for --server")
	case token != "":
		return &doctor.SignIn{Token: token}, nil
	}
	return nil, nil
}

// maxToken bounds a file with a token, in bytes.
const maxToken = 32 << 10

func (v *doctorSignIn) token(p *program) (string, error) {
	file := v.TokenFile
	if v.Token == "" && file == "" && !v.SignIn {
		v.Token, file = p.env["AUTHZ_TOKEN"], p.env["AUTHZ_TOKEN_FILE"]
	}
	if v.Token != "" || file == "" {
		return v.Token, nil
	}
	in := p.stdin
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return "", err
		}
		defer opened.Close()
		in = opened
	}
	text, err := io.ReadAll(io.LimitReader(in, maxToken))
	if token := strings.TrimSpace(string(text)); err != nil || token != "" {
		return token, err
	}
	return "", fmt.Errorf("%s has no token", file)
}

// open prints the address at which a person signs in, and opens it in the browser, if there is one:
// the command of BROWSER, else xdg-open. The address has no secret.
func open(p *program, url string) error {
	fmt.Fprintf(p.stderr, "\nSign in at\n  %s\n", url)
	command := strings.Fields(cmp.Or(strings.TrimSpace(os.Getenv("BROWSER")), "xdg-open"))
	browser := exec.Command(command[0], append(command[1:], url)...)
	browser.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, settings.Prefix) })
	if err := browser.Start(); err != nil {
		return nil // the person has the address
	}
	go func() { _ = browser.Wait() }()
	return nil
}
