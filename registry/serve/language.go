package serve

import (
	"net/http"

	"gatehouse.example/templates"
	"gatehouse.example/templates/language"
)

// pagesFor returns the pages in the best language for Accept-Language (RFC 9110
// section 12.5.4). The pages of a registry have no cookie, and so no choice of a language.
func (h *Handler) pagesFor(c *call) *templates.Registry {
	c.w.Header().Add("Vary", "Accept-Language") // RFC 9110 section 12.5.5
	return h.pages.For(templates.Reader{Language: language.Choose(c.r.Header.Get("Accept-Language"))})
}

// text returns what a page says about the refusal. What only programs ask for is refused in
// English.
func (p *refusal) text() language.Text {
	if !p.said.IsZero() {
		return p.said
	}
	return language.Detail(p.detail)
}

// title returns the heading of the refusal's page.
func (p *refusal) title() language.Text {
	switch p.status {
	case http.StatusNotFound:
		return language.Say("registry.error.notFound")
	case http.StatusBadRequest:
		return language.Say("registry.error.badRequest")
	case http.StatusUnprocessableEntity:
		return language.Say("registry.error.unprocessable")
	case http.StatusServiceUnavailable:
		return language.Say("registry.error.unavailable")
	case http.StatusInternalServerError:
		return language.Say("registry.error.internal")
	}
	return language.Detail(http.StatusText(p.status))
}
