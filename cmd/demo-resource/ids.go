package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"gatehouse.example/message"
)

var errInexactID = errors.New("id: it must be a string or a whole number of at most 2^53")

// exactIDs refuses requests whose id would not come back as it was sent.
func exactIDs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, ok := requestIn(r)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		if err := exact(request.ID); err != nil {
			refuse(w, request, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// requestIn reads the message of an HTTP request, whose body the guard has bounded and
// found to be one. It is false for everything but requests, which alone have an id that is
// the client's choice.
func requestIn(r *http.Request) (message.Request, bool) {
	if r.Body == nil || r.Body == http.NoBody {
		return message.Request{}, false
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return message.Request{}, false
	}
	m, err := message.Decode(body, message.Limits{MaxBytes: maxBody})
	request, ok := m.(message.Request)
	return request, err == nil && ok
}

// exact refuses numbers that the SDK would round: it keeps them as floating point.
func exact(id message.ID) error {
	const bound = 1 << 53
	if _, ok := id.Text(); ok {
		return nil
	}
	if n, ok := id.Int64(); !ok || n < -bound || n > bound {
		return errInexactID
	}
	return nil
}

// refusal answers a request that breaks a rule about ids.
func refusal(request message.Request, err error) message.ErrorResponse {
	return request.Fail(message.Error{Code: message.CodeInvalidRequest, Message: "Invalid Request: " + err.Error()})
}

func refuse(w http.ResponseWriter, request message.Request, err error) {
	body, _ := message.Encode(refusal(request, err)) // the id of a request can be written
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(body) // fails only when the client is gone
}
