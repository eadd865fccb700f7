package authz

import (
	"context"
	"errors"
	"net/http"

	"gatehouse.example/authz/upstream"
	"gatehouse.example/internal/fair"
	"gatehouse.example/templates/language"
)

// providerFault returns the page for an error of a provider: it names the provider, what
// happened, and what the person can do. The details are in the log. Errors of anything else are
// returned unchanged.
func providerFault(p *provider, err error) error {
	var e *upstream.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, fair.ErrBusy), errors.Is(err, context.DeadlineExceeded):
		e = &upstream.Error{Kind: upstream.ErrUnavailable, Reason: upstream.ReasonBusy}
	default:
		return err
	}
	f := faultOf(e)
	page := p.page(f)
	page.cause = err
	return page
}

// page returns an error page that names the provider.
func (p *provider) page(f fault) *displayedError {
	page := &displayedError{
		status: f.status, code: f.code, title: language.Say(f.title, "provider", p.Title()), message: language.Say(f.message, "provider", p.Title()),
	}
	for _, step := range f.steps {
		page.steps = append(page.steps, language.Say(step))
	}
	return page
}

// fault is what a page says about an error of a provider: ids of sentences, of which title and
// message take the provider's name.
type fault struct {
	status               int
	code, title, message string
	steps                []string
}

// faultOf returns what the page says, by the kind of the error.
func faultOf(e *upstream.Error) fault {
	const again, tell = "step.connectAgain", "step.provider.tell"
	switch {
	case errors.Is(e, upstream.ErrUnavailable) || errors.Is(e, upstream.ErrUnknown):
		return fault{http.StatusServiceUnavailable, codeUnavailable, "error.provider.down.title", "error.provider.down.message", []string{"step.provider.wait", tell}}
	case errors.Is(e, upstream.ErrNotAllowed):
		return fault{http.StatusForbidden, codeAccessDenied, "error.provider.notAllowed.title", "error.provider.notAllowed.message", []string{"step.provider.otherAccount", "step.provider.letIn"}}
	case errors.Is(e, upstream.ErrDenied), errors.Is(e, upstream.ErrGone):
		return fault{http.StatusForbidden, codeAccessDenied, "error.provider.denied.title", "error.provider.denied.message", []string{again, "step.provider.askThere"}}
	case errors.Is(e, upstream.ErrMisconfigured):
		return fault{http.StatusBadGateway, codeServerError, "error.provider.settings.title", "error.provider.settings.message", []string{"step.provider.tellNow"}}
	case e.Status() == http.StatusBadRequest:
		return fault{http.StatusBadRequest, codeInvalidRequest, "error.provider.answer.title", "error.provider.answer.message", []string{again, tell}}
	}
	return fault{http.StatusBadGateway, codeServerError, "error.provider.untrusted.title", "error.provider.untrusted.message", []string{again, tell}}
}

// tooManyAtProvider is the page for a network whose sign-ins at a provider keep failing.
func tooManyAtProvider(p *provider, seconds int) *displayedError {
	page := p.page(fault{http.StatusTooManyRequests, codeUnavailable, "error.provider.tooMany.title", "error.provider.tooMany.message", nil})
	page.limit = LimitProvider
	page.steps = []language.Text{language.Say("step.provider.waitSeconds", "seconds", seconds)}
	return page
}

// disabledPerson is the page for a person whom the operator locked out.
func disabledPerson(p *provider) *displayedError {
	return p.page(fault{http.StatusForbidden, codeAccessDenied, "error.provider.disabled.title", "error.provider.disabled.message", []string{"step.provider.ask"}})
}

// tooManyNames is the page for a person of whose name there are too many.
func tooManyNames(p *provider) *displayedError {
	return p.page(fault{http.StatusConflict, codeAccessDenied, "error.provider.names.title", "error.provider.names.message", []string{"step.provider.tellNow"}})
}
