package upstream

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"gatehouse.example/internal/strictjson"
)

const (
	githubPage  = 100
	githubPages = maxGroups / githubPage
)

// githubMetadata is what GitHub would say in metadata. ID tokens and keys it has none.
func githubMetadata(issuer string) metadata {
	issuer = strings.TrimSuffix(issuer, "/")
	return metadata{
		Issuer:                issuer,
		AuthorizationEndpoint: issuer + "/login/oauth/authorize",
		TokenEndpoint:         issuer + "/login/oauth/access_token",
		AuthMethods:           []string{secretPost},
	}
}

// githubAPI is where the API is: of its own host for github.com and its subdomain sites on ghe.com, below
// /api/v3 for a server of one's own.
func githubAPI(issuer string) string {
	u, err := url.Parse(issuer)
	if err != nil {
		return ""
	}
	if u.Host == "github.com" || strings.HasSuffix(u.Host, ".ghe.com") {
		return "https://api." + u.Host
	}
	return u.Scheme + "://" + u.Host + "/api/v3"
}

// githubPerson asks GitHub's API who an access token is for, and for their teams if groups are
// needed.
func (c *Client) githubPerson(ctx context.Context, lane, token string, groups bool) (Arrival, error) {
	var user struct {
		ID    int64  `json:"id"`
		Login string `json:"login"`
		Name  string `json:"name"`
	}
	if _, err := c.github(ctx, lane, token, "/user", &user); err != nil {
		return Arrival{}, err
	}
	if user.ID <= 0 || !githubName.MatchString(user.Login) {
		return Arrival{}, c.error(ErrInvalid, ReasonPerson, "the API's user has no id or no login")
	}
	a := Arrival{
		Provider: c.p.ID, Issuer: c.p.Issuer, Subject: strconv.FormatInt(user.ID, 10),
		Login: lower(user.Login), FullName: shown(user.Name, 128),
	}
	a.Handle = handle(a.Subject, a.Login)
	if err := c.githubMail(ctx, lane, token, &a); err != nil {
		return Arrival{}, err
	}
	return a, c.githubTeams(ctx, lane, token, &a, groups)
}

// githubMail fills in the primary address.
func (c *Client) githubMail(ctx context.Context, lane, token string, a *Arrival) error {
	var mails []struct {
		Email    string `json:"email"`
		Primary  bool   `json:"primary"`
		Verified bool   `json:"verified"`
	}
	// An app without the permission for addresses gets 403 or 404: then none is known.
	if _, err := c.github(ctx, lane, token, "/user/emails?per_page=100", &mails); err != nil {
		return err
	}
	for _, mail := range mails {
		if _, _, ok := address(mail.Email); ok && mail.Primary {
			a.Email, a.EmailVerified = mail.Email, mail.Verified
		}
	}
	return nil
}

// githubTeams fills in organisations and teams, if anything depends on them.
func (c *Client) githubTeams(ctx context.Context, lane, token string, a *Arrival, groups bool) error {
	if len(c.p.Allow.Organisations) > 0 {
		orgs, err := githubList(ctx, c, lane, token, "/user/orgs", func(o githubOrg) string { return o.Login })
		if err != nil {
			return err
		}
		for _, org := range orgs {
			if githubName.MatchString(org) {
				a.Organisations = append(a.Organisations, lower(org))
			}
		}
	}
	if !groups {
		return nil
	}
	teams, err := githubList(ctx, c, lane, token, "/user/teams", func(t githubTeam) string {
		return lower(t.Organization.Login) + "/" + lower(t.Slug)
	})
	if err != nil {
		return err
	}
	a.GroupsKnown = true
	return c.setGroups(a, teams, groups)
}

type githubOrg struct {
	Login string `json:"login"`
}

type githubTeam struct {
	Slug         string    `json:"slug"`
	Organization githubOrg `json:"organization"`
}

// githubList fetches all pages of a list, within the bound for groups.
func githubList[T any](ctx context.Context, c *Client, lane, token, path string, name func(T) string) (names []string, err error) {
	for page := 1; page <= githubPages; page++ {
		var list []T
		query := "?per_page=" + strconv.Itoa(githubPage) + "&page=" + strconv.Itoa(page)
		found, err := c.github(ctx, lane, token, path+query, &list)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, c.error(ErrMisconfigured, ReasonGroups, "GitHub does not show %s to this app: it needs the scope read:org, or the permission for members", path)
		}
		for _, one := range list {
			names = append(names, name(one))
		}
		if len(list) < githubPage {
			return names, nil
		}
	}
	return nil, c.error(ErrMisconfigured, ReasonGroups, "%s has %d entries or more, which is the most that is read", path, maxGroups)
}

// github asks the API. found is false for an answer of 403 or 404: not for this app.
func (c *Client) github(ctx context.Context, lane, token, path string, into any) (found bool, err error) {
	r, err := get(githubAPI(c.p.Issuer) + path)
	if err != nil {
		return false, c.own(err)
	}
	r.Header.Set("Accept", "application/vnd.github+json")
	r.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	answer, err := c.withToken(ctx, lane, r, token)
	switch {
	case err != nil:
		return false, err
	case answer.status == http.StatusForbidden && path != "/user", answer.status == http.StatusNotFound && path != "/user":
		return false, nil
	case answer.status != http.StatusOK:
		return false, c.error(ErrInvalid, ReasonPerson, "%s answered %d to a token that GitHub just gave", place(r), answer.status)
	}
	if strictjson.Valid(answer.body, strictjson.Options{MaxBytes: maxBody}) != nil || json.Unmarshal(answer.body, into) != nil {
		return false, c.error(ErrInvalid, ReasonNonsense, "%s answered with what is not the expected JSON", place(r))
	}
	return true, nil
}
