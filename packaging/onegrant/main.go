// Command onegrant is a client for packaging/cleanroot, which has no browser:
//
//	onegrant begin  NAME PASSWORD   registers, has the person sign in and consent, and prints a
//	                                client id and a refresh token
//	onegrant go-on  CLIENT TOKEN    refreshes, and prints the same with the next token
//
// It speaks to 127.0.0.1:8080 as a proxy that has ended TLS for the issuer would.
package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
)

const (
	listener = "http://127.0.0.1:8080"
	issuer   = "https://auth.example.com"
	redirect = "http://127.0.0.1:33418/callback"
	verifier = "a-verifier-that-is-no-secret-because-this-is-a-test-0000"
)

func main() {
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == "begin":
		err = begin(os.Args[2], os.Args[3])
	case len(os.Args) == 4 && os.Args[1] == "go-on":
		err = tokens(url.Values{"grant_type": {"refresh_token"}, "client_id": {os.Args[2]}, "refresh_token": {os.Args[3]}})
	default:
		err = errors.New("begin NAME PASSWORD, or go-on CLIENT TOKEN")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "onegrant:", err)
		os.Exit(1)
	}
}

// cookies are sent whatever they say about TLS, which is not here.
var cookies = map[string]string{}

// send sends a request to the listener, as if to the issuer, and returns its status, place and body.
func send(method, path, kind, body string) (status int, location string, text []byte, err error) {
	r, err := http.NewRequest(method, listener+path, strings.NewReader(body))
	if err != nil {
		return 0, "", nil, err
	}
	r.Host = "auth.example.com"
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for name, value := range cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0, "", nil, err
	}
	defer resp.Body.Close()
	for _, c := range resp.Cookies() {
		cookies[c.Name] = c.Value
	}
	text, err = io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header.Get("Location"), text, err
}

const form = "application/x-www-form-urlencoded"

func begin(name, password string) error {
	var client struct {
		ID string `json:"client_id"`
	}
	_, _, text, err := send(http.MethodPost, "/register", "application/json", `{"redirect_uris":["`+redirect+`"],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"],"client_name":"Cleanroot"}`)
	if err == nil {
		err = json.Unmarshal(text, &client)
	}
	if err != nil || client.ID == "" {
		return fmt.Errorf("register: %w: %s", err, text)
	}
	digest := sha256.Sum256([]byte(verifier))
	code, err := consent("/authorize?"+url.Values{
		"response_type": {"code"}, "client_id": {client.ID}, "redirect_uri": {redirect}, "state": {"s"}, "resource": {"https://notes.example.com/mcp"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(digest[:])}, "code_challenge_method": {"S256"},
	}.Encode(), url.Values{"username": {name}, "password": {password}, "decision": {"allow"}})
	if err != nil {
		return err
	}
	return tokens(url.Values{"grant_type": {"authorization_code"}, "client_id": {client.ID}, "code": {code}, "code_verifier": {verifier}, "redirect_uri": {redirect}})
}

var (
	inputs = regexp.MustCompile(`<input[^>]*>`)
	attr   = func(name string) *regexp.Regexp { return regexp.MustCompile(`\s` + name + `="([^"]*)"`) }
	action = regexp.MustCompile(`<form[^>]*method="post"[^>]*action="([^"]*)"`)
)

// consent follows pages, filling in their forms, to the code.
func consent(path string, known url.Values) (code string, err error) {
	method, body := http.MethodGet, ""
	for range 8 {
		_, location, text, err := send(method, path, form, body)
		if err != nil {
			return "", err
		}
		if location != "" {
			to, err := url.Parse(location)
			if err != nil {
				return "", err
			}
			if strings.HasPrefix(location, redirect) {
				return to.Query().Get("code"), nil
			}
			method, path, body = http.MethodGet, to.RequestURI(), ""
			continue
		}
		values := url.Values{}
		for _, input := range inputs.FindAllString(string(text), -1) {
			if name := attr("name").FindStringSubmatch(input); name != nil {
				value := attr("value").FindStringSubmatch(input)
				if given := known.Get(name[1]); given != "" {
					values.Set(name[1], given)
				} else if value != nil {
					values.Add(name[1], html.UnescapeString(value[1]))
				}
			}
		}
		values.Set("decision", known.Get("decision"))
		if !strings.Contains(string(text), `name="decision"`) {
			values.Del("decision")
		}
		to := action.FindSubmatch(text)
		if to == nil {
			return "", fmt.Errorf("%s has no form: %s", path, text)
		}
		next, err := url.Parse(html.UnescapeString(string(to[1])))
		if err != nil {
			return "", err
		}
		method, path, body = http.MethodPost, next.RequestURI(), values.Encode()
	}
	return "", errors.New("there is no end of pages")
}

// tokens asks for tokens, and prints the client and the refresh token.
func tokens(ask url.Values) error {
	var got struct {
		Refresh string `json:"refresh_token"`
	}
	status, _, text, err := send(http.MethodPost, "/token", form, ask.Encode())
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil || got.Refresh == "" {
		return fmt.Errorf("token: %d %s: %v", status, text, err)
	}
	_, err = fmt.Println(ask.Get("client_id"), got.Refresh)
	return err
}
