package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gatehouse.example/audit/trail"
	"gatehouse.example/cmd/authz/internal/settings"
)

// trail opens the audit trail of the gateway. It has no store to keep heads in.
func (s *gatewaySettings) trail(ctx context.Context, p *program, st *site) (auditTrail, error) {
	if s.Audit == "" {
		return auditTrail{}, nil
	}
	key, err := gatewayAuditKey(s.AuditKey)
	if err != nil {
		return auditTrail{}, err
	}
	return s.openTrail(ctx, st, p.stdout, []trail.Key{key}, nil)
}

// auditKeyMistake returns an error if the key of the audit trail is missing, without use or wrong.
func (s *gatewaySettings) auditKeyMistake() error {
	switch {
	case s.Audit == "" && s.AuditKey == "":
		return nil
	case s.Audit == "":
		return errors.New("audit-key has no effect without audit: name the file")
	case s.AuditKey == "":
		return errors.New("audit-key is not set: without a key nobody can tell whether a line of the audit trail was changed; make one with: openssl rand -base64 32")
	}
	_, err := gatewayAuditKey(s.AuditKey)
	return err
}

// gatewayAuditKey returns the key of the audit trail of a gateway.
func gatewayAuditKey(secret settings.Secret) (trail.Key, error) {
	raw, err := settings.DecodeBase64(strings.TrimSpace(string(secret)))
	if err == nil && len(raw) < 32 {
		err = fmt.Errorf("has %d bytes, it must have 32 or more: make one with: openssl rand -base64 32", len(raw))
	}
	if err != nil {
		return trail.Key{}, fmt.Errorf("audit-key %w", err)
	}
	return trail.NewKey(raw, "gateway")
}
