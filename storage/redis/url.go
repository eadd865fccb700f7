package redis

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// target is a parsed store URL.
type target struct {
	scheme   string
	embedded bool
	secure   bool
	cluster  bool
	master   string // the name of the primary at the sentinels, empty without Sentinel
	addrs    []string
	user     string
	password string
	db       int

	sentinelUser     string
	sentinelPassword string
	patience         time.Duration // 0: the default
}

// String returns the target without users and passwords.
func (t target) String() string {
	if t.embedded {
		return "embedded:"
	}
	s := t.scheme + "://" + strings.Join(t.addrs, ",")
	if t.master != "" {
		s += "/" + t.master
	}
	return s
}

// The forms of store URLs, for error messages: those that parseURL accepts, and file:PATH, which
// programs open with package storage/file.
const forms = "file:PATH, embedded:, redis://host:port, " +
	"redis+sentinel://host:port,host:port/name or redis+cluster://host:port,host:port, and with rediss in place of redis over TLS"

// Errors about a URL quote only its scheme: after a typing mistake, a part of the password may be
// anywhere in the rest.
var (
	errScheme = errors.New("storage/redis: the store URL must be " + forms)
	errHost   = errors.New("storage/redis: the store URL must name its servers as host:port; " +
		"write /, ?, #, @ and % in a password as %2F, %3F, %23, %40 and %25")
	errPath     = errors.New("storage/redis: the path of the store URL must be a database number, as in redis://host:6379/0")
	errOneHost  = errors.New("storage/redis: this store URL takes one server; several need redis+sentinel:// or redis+cluster://")
	errMaster   = errors.New("storage/redis: a redis+sentinel:// URL must name the primary, as in redis+sentinel://host:26379/name?db=0")
	errCluster  = errors.New("storage/redis: a redis+cluster:// URL has neither path nor parameters, because a cluster has one database")
	errQuery    = errors.New("storage/redis: the only parameters that a store URL may have are db, a number, sentinel-user, sentinel-password and wait-for-missing, each once, with redis+sentinel://")
	errPatience = errors.New("storage/redis: wait-for-missing must be a time from 1s to 24h, such as 1m")
	errUserinfo = errors.New("storage/redis: user and password in the store URL must be written as user:password@ or :password@, percent-encoded")
	errSentinel = errors.New("storage/redis: sentinel-password, alone or with sentinel-user, must have a value, percent-encoded: " +
		"write &, #, %, + and a space as %26, %23, %25, %2B and %20")
)

// PlainServers returns the servers, as host:port, that a store URL reaches without TLS. It is
// nil for an embedded store, and for a URL that [Open] refuses.
func PlainServers(url string) []string {
	t, err := parseURL(url)
	if err != nil || t.embedded || t.secure {
		return nil
	}
	return t.addrs
}

var schemePattern = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)

func parseURL(raw string) (target, error) {
	if raw == "embedded:" {
		return target{scheme: "embedded", embedded: true, addrs: []string{"embedded:0"}}, nil
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || !schemePattern.MatchString(scheme) {
		return target{}, errScheme
	}
	plain := scheme
	if kind, ok := strings.CutPrefix(scheme, "rediss"); ok {
		plain = "redis" + kind
	}
	t := target{scheme: scheme, secure: plain != scheme, cluster: plain == "redis+cluster"}
	authority, path, query := split(rest)
	switch plain {
	case "redis":
		return t.fill(authority, "6379", func() error { return t.single(path, query) })
	case "redis+sentinel":
		return t.fill(authority, "26379", func() error { return t.sentinel(path, query) })
	case "redis+cluster":
		return t.fill(authority, "6379", func() error { return t.noPath(path, query) })
	default:
		return target{}, fmt.Errorf("storage/redis: unknown scheme %q: the store URL must be %s", scheme, forms)
	}
}

// split divides what follows "://" into authority, path and query. A fragment stays in the part
// that it follows, where it is refused.
func split(rest string) (authority, path, query string) {
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest, path = rest[:i], rest[i:]
	}
	path, query, _ = strings.Cut(path, "?")
	return rest, path, query
}

// fill parses the authority, then the parts that differ by scheme.
func (t *target) fill(authority, port string, more func() error) (target, error) {
	hosts := authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		hosts = authority[i+1:]
		if err := t.userinfo(authority[:i]); err != nil {
			return target{}, err
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		addr, err := address(host, port)
		if err != nil {
			return target{}, err
		}
		t.addrs = append(t.addrs, addr)
	}
	if err := more(); err != nil {
		return target{}, err
	}
	return *t, nil
}

func (t *target) userinfo(s string) error {
	user, password, _ := strings.Cut(s, ":")
	var err1, err2 error
	t.user, err1 = url.PathUnescape(user)
	t.password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil || (t.user != "" && t.password == "") {
		return errUserinfo
	}
	return nil
}

// hostPattern is a name, an IPv4 address or an IPv6 address.
var hostPattern = regexp.MustCompile(`^[A-Za-z0-9._:-]+$`)

// address returns host:port with the default port filled in.
func address(s, defaultPort string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil { // no port, or not an address
		host, port = s, defaultPort
		if inner, ok := strings.CutPrefix(s, "["); ok {
			host, ok = strings.CutSuffix(inner, "]")
			if !ok || net.ParseIP(host) == nil {
				return "", errHost
			}
		} else if strings.Contains(s, ":") {
			return "", errHost
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || !hostPattern.MatchString(host) {
		return "", errHost
	}
	return net.JoinHostPort(host, port), nil
}

func (t *target) single(path, query string) error {
	if len(t.addrs) > 1 {
		return errOneHost
	}
	if query != "" {
		return errQuery
	}
	return t.database(strings.TrimPrefix(path, "/"), errPath)
}

var masterPattern = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

func (t *target) sentinel(path, query string) error {
	t.master = strings.TrimPrefix(path, "/")
	if !masterPattern.MatchString(t.master) {
		return errMaster
	}
	if query == "" {
		return nil
	}
	given := map[string]bool{}
	for parameter := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		if given[name] {
			return errQuery
		}
		given[name] = true
		if err := t.parameter(name, value); err != nil {
			return err
		}
	}
	if t.sentinelUser != "" && t.sentinelPassword == "" {
		return errSentinel
	}
	return nil
}

func (t *target) parameter(name, value string) error {
	switch name {
	case "db":
		return t.database(value, errQuery)
	case "sentinel-user":
		return credential(&t.sentinelUser, value)
	case "sentinel-password":
		return credential(&t.sentinelPassword, value)
	case "wait-for-missing":
		return t.wait(value)
	default:
		return errQuery
	}
}

// wait parses the parameter wait-for-missing.
func (t *target) wait(value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d < time.Second || d > 24*time.Hour {
		return errPatience
	}
	t.patience = d
	return nil
}

// credential decodes a parameter. A plus is refused because some decoders turn it into a space.
func credential(into *string, value string) (err error) {
	*into, err = url.PathUnescape(value)
	if err != nil || *into == "" || strings.ContainsAny(value, "#+ ") {
		return errSentinel
	}
	return nil
}

func (t *target) noPath(path, query string) error {
	if strings.TrimPrefix(path, "/") != "" || query != "" {
		return errCluster
	}
	return nil
}

// database parses a database number; an empty string is 0.
func (t *target) database(s string, refused error) error {
	if s == "" {
		return nil
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return refused
	}
	t.db = int(n)
	return nil
}
