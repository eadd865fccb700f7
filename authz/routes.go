package authz

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"gatehouse.example/internal/fair"
	"gatehouse.example/internal/limited"
	"gatehouse.example/internal/requestid"
	"gatehouse.example/metadata"
	"gatehouse.example/templates/language"
)

// routes returns the router of all endpoints. Paths are matched exactly and undecoded; a
// method that an endpoint does not support gets 405 with Allow.
func (s *Server) routes() (*paths, error) {
	router := &paths{missing: http.HandlerFunc(notFound)}
	route := func(path string, h http.Handler) { router.add(path, s.named(path, h)) }
	if err := s.documentRoutes(route); err != nil {
		return nil, err
	}
	s.apiRoutes(route)
	if err := s.browserRoutes(route); err != nil {
		return nil, err
	}
	route("/healthz", methods{http.MethodGet: http.HandlerFunc(healthz)})
	return router, nil
}

// route gives a path to a handler.
type route func(path string, h http.Handler)

// OnBehalf returns a handler that calls next with a request that carries a request id and the
// address of its sender. The id appears in log lines and in the answer; the address selects
// the network whose limits the request counts against. The server applies OnBehalf to itself.
// Use it for handlers beside it behind the same proxies.
func (s *Server) OnBehalf(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(s.onBehalf(r.Context(), w, r)))
	})
}

// onBehalf returns a context with the id and the sender of a request.
func (s *Server) onBehalf(ctx context.Context, w http.ResponseWriter, r *http.Request) context.Context {
	return fair.WithRequester(requestid.Begun(ctx, w, r), proxies(s.cfg.TrustedProxies).client(r))
}

// documentRoutes adds the well-known documents and the published keys.
func (s *Server) documentRoutes(add route) error {
	document, err := s.serverMetadata()
	if err != nil {
		return fmt.Errorf("authz: %w", err)
	}
	paths, err := metadata.AuthorizationServerMetadataPaths(s.cfg.Issuer)
	if err != nil {
		return fmt.Errorf("authz: %w", err)
	}
	for _, path := range paths {
		add(path, s.limited(LimitDocuments, document))
		add(path+"/", s.limited(LimitDocuments, document)) // for people who type the issuer with a slash
	}
	add(s.path("/jwks.json"), s.limited(LimitDocuments, s.keys.JWKS()))
	return nil
}

// apiRoutes adds the API routes: CORS for every origin, no cookies.
func (s *Server) apiRoutes(add route) {
	for path, h := range map[string]handler{"/token": s.token, "/revoke": s.revoke} {
		add(s.path(path), cors{"POST", s.limited(LimitToken, s.timely(s.before(s.placed(LimitToken, methods{http.MethodPost: s.api(h)}))))})
	}
	if len(s.providers.ordered) > 0 {
		// A provider is not a browser: no CORS, no cookies.
		add(s.path("/login/{provider}/logout"), s.limited(LimitToken, s.timely(methods{http.MethodPost: s.api(s.asPart(PartProviderLogout, s.backChannelLogout))})))
	}
	// A resource server is not a browser: no CORS.
	add(s.path("/introspect"), s.ifIntrospected(s.limited(LimitIntrospection, s.timely(s.before(s.placed(LimitIntrospection, methods{http.MethodPost: s.api(s.introspect)}))))))
	if s.cfg.Registration != RegistrationClosed {
		program := func(h http.Handler) http.Handler {
			return s.limited(LimitRegistration, s.timely(s.placed(LimitRegistration, s.yielding(h))))
		}
		add(s.path("/register"), cors{"POST", s.unlessFull(program(s.inPart(PartRegistration, s.clients.Register())))})
		add(s.path("/register/{id}"), cors{"GET, PUT, DELETE", program(s.inPart(PartRegistration, s.clients.Configuration()))})
	}
}

// browserRoutes adds the pages: cookies, CSRF protection and no CORS.
func (s *Server) browserRoutes(add route) error {
	protection := http.NewCrossOriginProtection()
	if err := protection.AddTrustedOrigin(s.urls.base.Scheme + "://" + s.urls.base.Host); err != nil {
		return fmt.Errorf("authz: %w", err)
	}
	foreign := s.page(func(http.ResponseWriter, *http.Request) error {
		return &displayedError{status: http.StatusForbidden, code: codeInvalidRequest, title: language.Say("error.foreignForm.title"),
			message: language.Say("error.otherSite.message"), steps: []language.Text{language.Say("step.connectAgain")}}
	})
	protection.SetDenyHandler(foreign)
	page := func(path string, m methods) { add(s.path(path), s.limitedPage(m)) }
	form := func(h handler) http.Handler { return protection.Handler(s.ownScheme(s.page(h), foreign)) }
	own := func(h handler) http.Handler { return form(s.asPart(PartAccount, h)) } // what a person changes
	for _, path := range slices.Compact([]string{s.path("/"), s.path("")}) {
		if path != "" {
			add(path, s.limitedPage(http.HandlerFunc(s.home)))
		}
	}
	page("/authorize", methods{http.MethodGet: s.page(s.authorize)})
	page("/login", methods{http.MethodGet: s.page(s.showLogin), http.MethodPost: form(s.login)})
	page("/login/{provider}/callback", methods{http.MethodGet: s.page(s.callback)})
	page("/account/providers", methods{http.MethodGet: s.page(s.showProviders), http.MethodPost: own(s.changeProviders)})
	page("/logout", methods{http.MethodPost: own(s.logout)})
	page("/language", methods{http.MethodGet: s.page(s.chooseLanguage)})
	if len(s.cfg.Pages.Logo) > 0 {
		page("/pages/logo", methods{http.MethodGet: http.HandlerFunc(s.ownLogo)})
	}
	page("/logo", methods{http.MethodGet: s.page(s.logo)})
	s.accountRoutes(page, own)
	page("/consent", methods{http.MethodGet: s.page(s.showConsent), http.MethodPost: form(s.consent)})
	page("/passkey.js", methods{http.MethodGet: http.HandlerFunc(passkeyScript)})
	page("/login/passkey", methods{http.MethodPost: form(s.passkeyLogin)})
	page("/login/code", methods{http.MethodGet: s.page(s.showCode), http.MethodPost: form(s.asPart(PartSecondFactor, s.codeLogin))})
	page(passkeysPath, methods{http.MethodGet: s.page(s.showPasskeys), http.MethodPost: own(s.changePasskeys)})
	page(secondFactorPath, methods{http.MethodGet: s.page(s.showSecondFactor), http.MethodPost: own(s.changeSecondFactor)})
	page(passwordPath, methods{http.MethodGet: s.page(s.showPassword), http.MethodPost: own(s.changePassword)})
	page(invitePath, methods{http.MethodGet: s.page(s.invite), http.MethodPost: own(s.acceptInvite)})
	return nil
}

// ownScheme hands forms to next, and to foreign those that an http page of an https issuer's host
// sends: whoever is between a person and the network can make such a page. Of browsers that send no
// Sec-Fetch-Site, [http.CrossOriginProtection] compares the host alone.
func (s *Server) ownScheme(next, foreign http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.urls.base.Scheme == "https" && strings.HasPrefix(r.Header.Get("Origin"), "http://") {
			foreign.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// accountRoutes adds the pages on which people see and end what acts for them.
func (s *Server) accountRoutes(page func(string, methods), form func(handler) http.Handler) {
	show := func(path string, h accountHandler) http.Handler { return s.page(s.ofPerson(path, h)) }
	page(accountPath, methods{http.MethodGet: show(accountPath, s.showAccount)})
	page(applicationsPath, methods{
		http.MethodGet: show(applicationsPath, s.showApplications), http.MethodPost: form(s.accountForm(applicationsPath, "applications", endForm, s.endApplications)),
	})
	page(endAllPath, methods{http.MethodGet: show(endAllPath, s.askEndAll), http.MethodPost: form(s.accountForm(endAllPath, "end all", endForm, s.endAll))})
	page(rememberedPath, methods{http.MethodGet: show(rememberedPath, s.showRemembered), http.MethodPost: form(s.accountForm(rememberedPath, "remembered", endForm, s.forget))})
	page(sessionsPath, methods{http.MethodGet: show(sessionsPath, s.showSessions), http.MethodPost: form(s.accountForm(sessionsPath, "sessions", sessionsForm, s.endListed))})
	page(activityPath, methods{http.MethodGet: show(activityPath, s.showActivity)})
}

// timely returns a handler that limits the total time of a request, however often it uses the
// store: when the store does not answer, the client gets 503 within the two seconds of one
// write ([storage.Options]).
func (s *Server) timely(next http.Handler) http.Handler {
	return timely{next, s.cfg.Store.WriteTime() * 95 / 100}
}

// timely sets a deadline for a request. The time begins when the body has been read: the
// listener limits how slowly a client may send.
type timely struct {
	next   http.Handler
	within time.Duration
}

func (t timely) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := begin(r)
	ctx := limited.Within(r.Context(), t.within)
	defer ctx.End()
	r = r.WithContext(ctx)
	r.Body = body
	t.next.ServeHTTP(w, r)
}

// path prepends the path of the issuer.
func (s *Server) path(p string) string { return strings.TrimSuffix(s.urls.base.Path, "/") + p }

// methods maps HTTP methods to handlers. HEAD uses the handler of GET.
type methods map[string]http.Handler

func (m methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, ok := m[r.Method]
	if !ok && r.Method == http.MethodHead {
		h, ok = m[http.MethodGet]
	}
	if ok {
		h.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Allow", m.allow())
	noStore(w.Header())
	writeJSON(w, http.StatusMethodNotAllowed, map[string]string{
		"error": codeInvalidRequest, "error_description": "this endpoint takes " + m.allow(),
	})
}

func (m methods) allow() string {
	var names []string
	for name := range m {
		names = append(names, name)
		if name == http.MethodGet {
			names = append(names, http.MethodHead)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// cors allows programs in any browser to call an endpoint with its methods, without
// credentials.
type cors struct {
	methods string
	next    http.Handler
}

func (c cors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h["Access-Control-Allow-Origin"] = valueAny
	h["Access-Control-Expose-Headers"] = valueExposed
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Methods", c.methods+", OPTIONS")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name")
		h.Set("Access-Control-Max-Age", "3600")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	c.next.ServeHTTP(w, r)
}

// pageHeaders sets the headers of every page. Referrer-Policy is same-origin: under
// no-referrer browsers send forms with the Origin "null", and the cross-origin check, which
// looks at Sec-Fetch-Site first, would refuse them from every browser without that header.
func (s *Server) pageHeaders(h http.Header) {
	noStore(h)
	h["Content-Type"] = valueHTML
	h["Content-Security-Policy"] = s.pagePolicy
	h["X-Frame-Options"] = valueDeny
	h["Referrer-Policy"] = valueSameOrigin
	// There is no Cross-Origin-Opener-Policy: a client that opened the page in a pop-up would
	// lose its window, and with it the answer.
	h["Cross-Origin-Resource-Policy"] = valueSameOrigin
	h["Permissions-Policy"] = valuePermissions
	if s.cookies.secure {
		h["Strict-Transport-Security"] = valueTransport
	}
}

func healthz(w http.ResponseWriter, _ *http.Request) {
	noStore(w.Header())
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// notFound answers requests to unknown paths in JSON. An HTML page or a 401 would mislead
// some clients, which probe for endpoints.
func notFound(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	noStore(w.Header())
	writeJSON(w, http.StatusNotFound, map[string]string{"error": "not_found", "error_description": "there is nothing here"})
}

// withRecovery turns a panic into a plain 500 and a line in the log. The line is a warning,
// like every line that a request alone can cause.
func (s *Server) withRecovery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p == http.ErrAbortHandler {
				panic(p)
			}
			s.cfg.Logger.WarnContext(r.Context(), "panic", "endpoint", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			noStore(w.Header())
			writeJSON(w, http.StatusInternalServerError, map[string]string{"error": codeServerError, "error_description": "the server could not complete the request"})
		}()
		next.ServeHTTP(w, r)
	})
}
