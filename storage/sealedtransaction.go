package storage

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"io"
)

// sealedTransaction is the purpose of the keys that seal transactions for browsers.
const sealedTransaction = "gatehouse transaction in a browser"

// SealTransaction returns a transaction in the form in which its browser keeps it: no process has
// to keep it, and every process with the same master keys can go on with it. It is unreadable,
// bound to issuer, id and browser, and ends when the transaction does.
//
// The form is that of [Sealed]. Anonymous requests can cause any number of sealings, so each
// transaction has its own key, derived from the first master key (HKDF, RFC 5869): no key is ever
// used often enough for two equal nonces.
func (s *Store) SealTransaction(t Transaction) ([]byte, error) {
	if len(s.sealer.keys) == 0 {
		return nil, ErrNoMasterKey
	}
	id, browser := t.ID, t.Browser
	t.ID, t.Browser = "", nil // both are given again when it is opened
	if len(t.Access) > 0 {
		t.Resources, t.Scopes = nil, nil // the release before does not open it
	}
	plain, err := t.appendJSON(make([]byte, 0, 640))
	if err != nil {
		return nil, fmt.Errorf("storage: seal: %w", err)
	}
	first := s.sealer.keys[0]
	aead, bound, err := s.sealer.transactionKey(first, id, browser)
	if err != nil {
		return nil, err
	}
	out := make([]byte, sealedHeader, sealedHeader+len(plain)+aead.Overhead())
	out[0] = sealedVersion
	copy(out[1:5], first.name[:])
	if _, err := io.ReadFull(s.rand, out[5:sealedHeader]); err != nil {
		return nil, fmt.Errorf("storage: seal: %w", err)
	}
	return aead.Seal(out, out[5:sealedHeader], plain, bound), nil
}

// openTransaction opens the result of SealTransaction. Every failure is [ErrNotFound]: a browser
// may send anything.
func (s *Store) openTransaction(id string, browser SecretHash, sealed []byte) (Transaction, error) {
	if len(sealed) < sealedHeader || sealed[0] != sealedVersion {
		return Transaction{}, ErrNotFound
	}
	for _, k := range s.sealer.keys {
		if [4]byte(sealed[1:5]) != k.name {
			continue
		}
		aead, bound, err := s.sealer.transactionKey(k, id, browser)
		if err != nil {
			return Transaction{}, err
		}
		plain, err := aead.Open(nil, sealed[5:sealedHeader], sealed[sealedHeader:], bound)
		if err != nil {
			continue
		}
		t := Transaction{}
		if err := unmarshal(plain, &t); err != nil || !s.now().Before(t.Expires) {
			return Transaction{}, ErrNotFound // made by another release, or expired
		}
		t.ID, t.Browser, t.known = id, browser, true
		return t, nil
	}
	return Transaction{}, ErrNotFound
}

// transactionKey derives the key that seals one transaction, and returns the associated data: purpose,
// id, issuer and browser.
func (s sealer) transactionKey(k masterKey, id string, browser SecretHash) (_ cipher.AEAD, bound []byte, err error) {
	bound = s.associated(sealedTransaction, id)
	key := k.keys.key(bound)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, nil, fmt.Errorf("storage: transaction key: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, nil, fmt.Errorf("storage: transaction key: %w", err)
	}
	return aead, append(bound, browser...), nil
}
