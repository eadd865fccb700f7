package dcr

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"

	"gatehouse.example/safefetch"
)

// read fetches a document, or revalidates the cached one.
func (r *remote[T]) read(ctx context.Context, address string, pending *pendingFetch[T]) (T, error) {
	kept, fetchCost := pending.kept, fetchCostOf(ctx, address, pending.known)
	if r.limiter.Take(1, fetchCost.all()...) > 0 {
		return r.logFailure(ctx, address, ErrUnreachable, "too many failed fetches from this host, or too many fetches for this network")
	}
	response, err := r.fetcher.Get(ctx, pending.request)
	if errors.Is(err, safefetch.ErrBusy) {
		r.limiter.Return(1, fetchCost.all()...) // no request was sent
		return r.logFailure(ctx, address, ErrUnreachable, safefetch.Reason(err))
	}
	if err != nil {
		return r.remember(ctx, address, publicError(err), safefetch.Reason(err))
	}
	if response.Status == http.StatusNotModified {
		// RFC 9111 section 4.3.4: the header of the response updates the cached one.
		header := kept.header.Clone()
		header.Del("Age")
		maps.Copy(header, response.Header)
		kept.header = header
	} else {
		kept = published[T]{weight: len(response.Body), header: response.Header}
		if kept.value, err = r.parse(address, response.Body); err != nil {
			return r.remember(ctx, address, err, err.Error())
		}
	}
	r.limiter.Return(1, fetchCost.refundable...)
	kept.read, kept.life = r.now(), lifetime(kept.header, r.longest)
	r.kept.put(address, kept, kept.weight)
	return kept.value, nil
}

// request returns the request for a document. If there is a cached one, the request is
// conditional and has a separate lane, so that first fetches do not delay clients in use.
func (r *remote[T]) request(address string, kept http.Header, known bool) safefetch.Request {
	request := safefetch.Request{URL: address, Accept: r.accept, MaxBytes: r.most, Lane: "new"}
	if known {
		request.Lane = "known"
	}
	if tag := kept.Get("Etag"); fieldValue(tag) {
		request.IfNoneMatch = tag
	}
	if since := kept.Get("Last-Modified"); fieldValue(since) {
		request.IfModifiedSince = since
	}
	return request
}

// remember records a failed fetch, so that the address is not fetched again at once.
func (r *remote[T]) remember(ctx context.Context, address string, err error, reason string) (T, error) {
	r.failures.put(address, failure{err, r.now().Add(failureTime)}, len(address)+len(err.Error()))
	return r.logFailure(ctx, address, err, reason)
}

// logFailure logs why there is no document, and returns err.
func (r *remote[T]) logFailure(ctx context.Context, address string, err error, reason string) (T, error) {
	r.log.WarnContext(ctx, r.what+" not used", "url", address, "reason", reason)
	var none T
	return none, err
}

// publicError returns the error of a failed fetch for the requester: an [unusable] if the
// document is wrong, and [ErrUnreachable] for every failure on the way to it, so that the
// answer does not disclose what is behind an address.
func publicError(err error) error {
	var e *safefetch.Error
	if !errors.As(err, &e) {
		return ErrUnreachable
	}
	switch {
	case errors.Is(e, safefetch.ErrStatus) && e.Status < 500 && e.Status != http.StatusTooManyRequests && e.Status != http.StatusRequestTimeout:
		return &unusable{fmt.Sprintf("its host answers with the status %d instead of 200", e.Status)}
	case errors.Is(e, safefetch.ErrMediaType):
		return &unusable{"its media type is not JSON"}
	case errors.Is(e, safefetch.ErrTooLarge):
		return &unusable{"it is too large"}
	case errors.Is(e, safefetch.ErrRequest):
		return &unusable{"its address cannot be fetched"}
	}
	return ErrUnreachable
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Hostname()
}

// fieldValue reports whether s can be sent unmodified in a header field.
func fieldValue(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
