package doctor

import (
	"net/url"
	"strings"
	"sync"
)

// secrets are texts that no finding, no progress and no record may show. They are replaced where
// answers are kept, since a server may repeat what it was sent.
type secrets struct {
	mu  sync.Mutex
	all []string
}

// hidden stands for a secret.
const hidden = "[secret]"

// add remembers secrets. Of a JWT the signature alone is one too.
func (s *secrets) add(texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range texts {
		parts := []string{text, url.QueryEscape(text)}
		if at := strings.LastIndexByte(text, '.'); at >= 0 {
			parts = append(parts, text[at+1:])
		}
		for _, part := range parts {
			if len(part) >= 8 { // a shorter one would hide half of a report
				s.all = append(s.all, part)
			}
		}
	}
}

// redact replaces the secrets in a text.
func (s *secrets) redact(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range s.all {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	return text
}

// scrub replaces the secrets in a record, but for the body of answers that have the secrets which a
// sign-in needs: who reads them does that.
func (s *secrets) scrub(e *exchange) {
	s.mu.Lock()
	none := len(s.all) == 0
	s.mu.Unlock()
	if none {
		return
	}
	e.url, e.reason = s.redact(e.url), s.redact(e.reason)
	if !strings.HasPrefix(e.place, "sign-in.") {
		s.scrubBody(e)
	}
	for _, values := range e.header {
		for i := range values {
			values[i] = s.redact(values[i])
		}
	}
	e.sent = e.sent.Clone()
	e.sent.Del("Authorization")
}

func (s *secrets) scrubBody(e *exchange) {
	if e.body != nil {
		e.body = []byte(s.redact(string(e.body)))
	}
}
