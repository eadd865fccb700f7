package authz

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"gatehouse.example/dcr"
	"gatehouse.example/metadata"
	"gatehouse.example/storage"
	"gatehouse.example/templates/language"
)

// transactionTTL is the time that a person has to sign in and decide.
const transactionTTL = 10 * time.Minute

// authorization is an authorization request that passed every check (OAuth 2.1 section
// 4.1.1).
type authorization struct {
	visit     *visit
	set       *resourceSet
	client    storage.Client
	to        proven
	challenge string
	resources []string
	access    storage.Access
	prompt    []string
	maxAge    *int64 // seconds
	hint      string // login_hint
}

// authorize handles GET /authorize: it checks the request, and answers it at once if the person
// is to be asked nothing. Otherwise it starts a transaction in this browser and redirects to the
// sign-in or consent page.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) error {
	a, err := s.readAuthorization(r)
	if err != nil {
		return err
	}
	session, err := a.visit.live(r.Context())
	if err != nil {
		return err
	}
	t := s.asking(a)
	if done, err := s.grantUnasked(w, r, a.set, t, session, a.client, a.to); done || err != nil {
		return err
	}
	if slices.Contains(a.prompt, promptNone) {
		return s.withoutPage(r, a, t, session)
	}
	return s.begin(w, r, a, t, session)
}

// readAuthorization runs the checks of an authorization request in order: the checks that
// decide whether a redirect is allowed come first.
func (s *Server) readAuthorization(r *http.Request) (_ authorization, err error) {
	r, end := s.part(r, PartAuthorization)
	defer func() { end(err) }()
	f, err := authorizeForm.parse(r.URL.RawQuery)
	if err != nil {
		return authorization{}, malformed(err.Error())
	}
	for _, name := range []string{"client_id", "redirect_uri"} {
		if p := f.problems[name]; p != "" {
			return authorization{}, malformed(p)
		}
	}
	v, client, err := s.visitor(r, f.get("client_id"))
	if err != nil {
		return authorization{}, err
	}
	client, to, err := s.proveAnew(r.Context(), s.afterChange(r, client), f.get("redirect_uri"), f.get("state"))
	if err != nil {
		return authorization{}, err
	}
	a := authorization{visit: v, set: s.resources.take(r.Context()), client: client, to: to}
	for _, check := range authorizationChecks {
		if err := check(s, f, &a); err != nil {
			return authorization{}, err
		}
	}
	return a, nil
}

// unknownClient returns the page for an unknown client. If cause is a [storage.RemovedError],
// the page gives the date and reason of the removal.
func unknownClient(cause error) *displayedError {
	message := language.Say("error.unknownClient.message")
	var removed *storage.RemovedError
	if errors.As(cause, &removed) {
		message = language.Say("error.unknownClient.removed", "day", removed.At, "reason", language.Detail(removed.Because))
	}
	var document *dcr.DocumentError
	if errors.As(cause, &document) {
		return unusableDocument(document)
	}
	return &displayedError{
		status: http.StatusBadRequest, code: codeInvalidClient, cause: cause,
		title: language.Say("error.unknownClient.title"), message: message,
		steps: []language.Text{language.Say("error.unknownClient.again"), language.Say("error.unknownClient.ask")},
	}
}

// unusableDocument returns the page for a client whose metadata document is invalid. It names
// the error, which the makers of the client can check at the document's address.
func unusableDocument(cause *dcr.DocumentError) *displayedError {
	return &displayedError{
		status: http.StatusBadRequest, code: codeInvalidClient, cause: cause,
		title:   language.Say("error.document.title"),
		message: language.Say("error.document.message", "address", printable(cause.ClientID), "detail", language.Detail(printableLong(cause.Why))),
		steps: []language.Text{
			language.Say("step.closeFollowed"),
			language.Say("step.otherwiseTellMakers"),
		},
	}
}

func malformed(problem string) *displayedError {
	return &displayedError{
		status: http.StatusBadRequest, code: codeInvalidRequest,
		title: language.Say("error.malformed.title"), message: language.Detail(sentence(printableLong(problem))),
		steps: []language.Text{language.Say("step.tryAgain"), language.Say("step.againTellMakers")},
	}
}

func unprovenRedirect(client storage.Client, requested string, cause error) *displayedError {
	message := language.Say("error.redirect.unregistered")
	switch _, why, _ := strings.Cut(cause.Error(), metadata.ErrRedirectURI.Error()+": "); {
	case requested == "":
		message = language.Say("error.redirect.missing")
	case slices.Contains(client.Metadata.RedirectURIs, requested):
		message = language.Say("error.redirect.refused", "detail", language.Detail(printableLong(why)))
	}
	return &displayedError{
		status: http.StatusBadRequest, code: codeInvalidRequest, cause: cause,
		title: language.Say("error.redirect.title"), message: message,
		steps: []language.Text{
			language.Say("error.redirect.again"),
			language.Say("step.closeFollowed"),
		},
	}
}

// authorizationChecks are the checks whose errors may be redirected, in order. The resource
// comes before the scope, because a scope belongs to a resource.
var authorizationChecks = []func(*Server, form, *authorization) error{
	checkForm, checkRequestObject, checkResponseType, checkGrantType, checkChallenge, checkResource, checkScope,
	checkPrompt, checkMaxAge, checkLoginHint,
}

func checkForm(_ *Server, f form, a *authorization) error {
	if p := f.problem(); p != "" {
		return a.to.refuse(codeInvalidRequest, "%s", p)
	}
	return nil
}

// checkRequestObject refuses parameters that would carry other parameters past the form
// filter.
func checkRequestObject(_ *Server, f form, a *authorization) error {
	switch {
	case f.get("request") != "":
		return a.to.refuse(codeRequestNotSupported, "request objects are not supported")
	case f.get("request_uri") != "":
		return a.to.refuse(codeURINotSupported, "request_uri is not supported")
	case f.get("registration") != "":
		return a.to.refuse(codeRegNotSupported, "registration in the authorization request is not supported")
	}
	return nil
}

// checkResponseType allows the code grant only: no implicit grant (OAuth 2.1 section 10.1),
// no response in a fragment or a form.
func checkResponseType(_ *Server, f form, a *authorization) error {
	switch mode := f.get("response_mode"); {
	case f.get("response_type") == "":
		return a.to.refuse(codeInvalidRequest, "the parameter response_type is missing; use response_type=code")
	case f.get("response_type") != "code":
		return a.to.refuse(codeUnsupportedResponse, "response_type must be code")
	case mode != "" && mode != "query":
		return a.to.refuse(codeInvalidRequest, "response_mode must be query")
	}
	return nil
}

func checkGrantType(_ *Server, _ form, a *authorization) error {
	if !slices.Contains(a.client.Metadata.GrantTypes, metadata.GrantAuthorizationCode) {
		return a.to.refuse(codeUnauthorizedClient, "the client did not register the grant type authorization_code")
	}
	return nil
}

// checkChallenge requires PKCE with S256 of every client (OAuth 2.1 section 4.1.1, RFC 7636
// section 4.3). A SHA-256 in base64url has exactly 43 characters; no verifier could match any
// other value.
func checkChallenge(_ *Server, f form, a *authorization) error {
	a.challenge = f.get("code_challenge")
	switch {
	case a.challenge == "":
		return a.to.refuse(codeInvalidRequest, "PKCE is required: the parameter code_challenge is missing")
	case f.get("code_challenge_method") != "S256":
		return a.to.refuse(codeInvalidRequest, "code_challenge_method must be S256")
	case !isChallenge(a.challenge):
		return a.to.refuse(codeInvalidRequest, "code_challenge must be the 43 base64url characters of a SHA-256")
	}
	return nil
}

// isChallenge reports whether a text is a SHA-256 in base64url as a client writes one. The last
// of the 43 characters has two bits to spare, which are zero (RFC 4648 section 3.5).
func isChallenge(s string) bool {
	var hash [sha256.Size]byte
	if len(s) != base64.RawURLEncoding.EncodedLen(len(hash)) {
		return false
	}
	n, err := base64.RawURLEncoding.Strict().Decode(hash[:], []byte(s))
	return err == nil && n == len(hash) // the decoder skips line breaks
}

func notBase64URL(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
}

func checkResource(_ *Server, f form, a *authorization) error {
	var problem string
	if a.resources, problem = a.set.requested(f.all("resource")); problem != "" {
		return a.to.refuse(codeInvalidTarget, "%s", problem) // RFC 8707 section 2
	}
	return nil
}

func checkScope(s *Server, f form, a *authorization) error {
	asked, problem := a.set.asked(a.resources, f.get("scope"))
	if problem != "" {
		return a.to.refuse(codeInvalidScope, "%s", problem)
	}
	a.access = s.permitted(a.client, asked)
	all, allowed := asked.Scopes(), a.access.Scopes()
	if f.get("scope") != "" && len(allowed) < len(all) {
		return a.to.refuse(codeInvalidScope, "this client may not ask for every one of these scopes; it may ask for %s", strings.Join(allowed, " "))
	}
	if len(all) > 0 && len(allowed) == 0 {
		return a.to.refuse(codeInvalidScope, "this client may ask for none of the scopes that are granted without a scope parameter")
	}
	return nil
}

// permitted returns the part of asked that the client may ask for.
func (s *Server) permitted(client storage.Client, asked storage.Access) storage.Access {
	out := slices.Clone(asked)
	for i, p := range asked {
		out[i].Scopes = slices.DeleteFunc(slices.Clone(p.Scopes), func(scope string) bool { return !s.clients.MayAskFor(client, scope) })
	}
	return out
}

// asking returns the transaction of a request, which nothing keeps yet: without id and browser.
func (s *Server) asking(a authorization) storage.Transaction {
	now := s.cfg.Now()
	return a.withPrompt(storage.Transaction{
		ClientID: a.client.ID, ClientDigest: dcr.Digest(a.client), RedirectURI: a.to.uri.Raw, State: a.to.state, Challenge: a.challenge,
		Access: a.access, Resources: a.access.Resources(), Scopes: a.access.Scopes(), Created: now, Expires: now.Add(transactionTTL),
	})
}

// begin starts a transaction in the browser and redirects to its first page.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, a authorization, t storage.Transaction, session liveSession) error {
	browser, err := s.browser(w, r)
	if err != nil {
		return err
	}
	if t.ID, err = s.cfg.Store.NewID(); err != nil {
		return err
	}
	t.Browser = storage.HashSecret(browser)
	if err := s.keepTransaction(w, r, t); err != nil {
		return err
	}
	s.clients.FetchLogo(r.Context(), a.client, t.RedirectURI)
	s.clients.Asked(a.client)
	next := s.urls.login
	if session.satisfies(t) {
		next = s.urls.consent
	}
	seeOther(w, next+"?transaction="+t.ID)
	return nil
}
