package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"gatehouse.example/authz/internal/account"
	"gatehouse.example/storage"
)

// linkPrefix begins the token of a one-time link.
const linkPrefix = "gate_in_"

// ErrElsewhere means that a provider signs a person in, so that there is nothing to choose here.
var ErrElsewhere = errors.New("authz: a provider signs this person in")

// ErrLinkTime means that a one-time link would end at once, or in more than a month.
var ErrLinkTime = errors.New("authz: a one-time link is for 1 minute to 31 days")

// Link says what a one-time link is for.
type Link struct {
	// For is how long the link works: 1 minute to 31 days.
	For time.Duration
	// Now is the time; zero means that of the machine.
	Now time.Time
	// DropSecondFactor and DropPasskeys make [Reset] remove them, for a person who has lost a
	// device.
	DropSecondFactor, DropPasskeys bool
}

// OneTimeLink is a link that was made.
type OneTimeLink struct {
	User storage.User
	// Token is the secret of the link: the page is at /invite?token=TOKEN below the issuer. It is
	// kept nowhere.
	Token   string
	Expires time.Time
}

// Address returns the address of the link at an issuer.
func (l OneTimeLink) Address(issuer string) string {
	return issuer + "/invite?token=" + strings.ReplaceAll(l.Token, "+", "%2B") // names may have a plus sign
}

// Invite stores a person without a password, and returns a link with which the person chooses one,
// or makes a passkey. The error wraps [storage.ErrConflict] if the name is taken, and is
// [ErrUserName] or [ErrLinkTime] if an argument is invalid.
func Invite(ctx context.Context, store *storage.Store, name string, l Link) (OneTimeLink, error) {
	canonical, err := account.OwnName(name) // a link to a provider's name would be a way in past the provider
	if err != nil {
		return OneTimeLink{}, err
	}
	made, invitation, err := l.draw(store, canonical)
	if err != nil {
		return OneTimeLink{}, err
	}
	subject, err := store.NewID()
	if err != nil {
		return OneTimeLink{}, err
	}
	made.User = storage.User{Name: canonical, Subject: subject, Invitation: invitation, Created: invitation.Created}
	if err := store.CreateUser(ctx, made.User); err != nil {
		return OneTimeLink{}, fmt.Errorf("authz: invite: %w", err)
	}
	return made, nil
}

// Reset ends the password and the sessions of a person at once, and returns a link with which the
// person chooses again how to sign in. Grants remain, and so do passkeys and the second factor
// unless l drops them. An earlier link ends. The error wraps [storage.ErrNotFound] for an unknown
// name, and is [ErrElsewhere], [ErrDisabled] or [ErrLinkTime].
func Reset(ctx context.Context, store *storage.Store, name string, l Link) (OneTimeLink, error) {
	if strings.Contains(name, "/") {
		return OneTimeLink{}, ErrElsewhere
	}
	user, err := FindUser(ctx, store, name)
	if err != nil {
		return OneTimeLink{}, err
	}
	made, invitation, err := l.draw(store, user.Name)
	if err != nil {
		return OneTimeLink{}, err
	}
	err = changeUser(ctx, store, user.Name, func(u *storage.User) error {
		if u.Disabled {
			return ErrDisabled
		}
		u.Password, u.Invitation, u.SessionEpoch = "", invitation, u.SessionEpoch+1
		if l.DropSecondFactor {
			u.SecondFactor = nil
		}
		if l.DropPasskeys {
			u.Passkeys = nil // their aliases lead to nobody now
		}
		made.User = *u
		return nil
	})
	if err != nil {
		return OneTimeLink{}, err
	}
	return made, nil
}

// draw makes a link for a canonical name, and what is stored of it.
func (l Link) draw(store *storage.Store, name string) (OneTimeLink, *storage.Invitation, error) {
	if l.For < time.Minute || l.For > 31*24*time.Hour {
		return OneTimeLink{}, nil, ErrLinkTime
	}
	if l.Now.IsZero() {
		l.Now = time.Now()
	}
	secret, err := store.NewSecret(linkPrefix)
	if err != nil {
		return OneTimeLink{}, nil, err
	}
	made := OneTimeLink{Token: secret + "." + name, Expires: l.Now.Add(l.For).UTC()}
	return made, &storage.Invitation{Token: storage.HashSecret(made.Token), Created: l.Now.UTC(), Expires: made.Expires}, nil
}
