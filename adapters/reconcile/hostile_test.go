package reconcile

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlqbridge/dlqbridge"
)

// An address that may not be reached is refused when it is dialled, under
// whatever name, and nothing is said about the task. So a name that is checked
// and then resolves to something else is no way in.
func TestPrivateAddressesAreRefused(t *testing.T) {
	s := serve(t, 404, `{"error":{"code":"resource_missing"}}`)
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	elsewhere := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "169.254.169.254"} {
		o := payments("https://" + host + ":" + port)
		o.AllowAddresses = elsewhere
		got := askOne(t, o, question("k"))
		if got.Unavailable == "" || len(got.Findings) > 0 {
			t.Errorf("%s: got %+v", host, got)
		}
		if !strings.Contains(got.Unavailable, "is not public") {
			t.Errorf("%s: %s", host, got.Unavailable)
		}
	}
	if len(s.asked) > 0 {
		t.Errorf("the system was asked %v", s.asked)
	}
}

func TestGuard(t *testing.T) {
	g := guard{allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32")}}
	for _, a := range []string{
		"127.0.0.1:443", "127.8.8.8:443", "10.0.0.1:443", "172.16.0.1:443", "192.168.1.1:443", "169.254.169.254:80", "100.100.100.200:80", "0.0.0.0:1",
		"192.0.0.192:80", "198.18.0.1:80", "224.0.0.1:80", "240.0.0.1:80", "255.255.255.255:80", "192.0.2.1:80", "203.0.113.9:80",
		"[::1]:443", "[::]:443", "[::ffff:10.0.0.1]:443", "[::ffff:169.254.169.254]:80", "[::127.0.0.1]:80", "[64:ff9b::a9fe:a9fe]:80", "[2002:7f00:1::]:80",
		"[2001:0:1::1]:80", "[fe80::1%eth0]:80", "[fd00:ec2::254]:80", "[fc00::1]:80", "[fec0::1]:80", "[ff02::1]:80", "[2001:db8::1]:80", "[fd00:2::1]:80",
		"example.com:443", "1.2.3.4", "",
	} {
		if g.control("tcp", a, nil) == nil {
			t.Errorf("%s may be dialled", a)
		}
	}
	for _, a := range []string{"1.1.1.1:443", "[2606:4700:4700::1111]:443", "[::ffff:1.1.1.1]:443", "10.1.2.3:80", "[::ffff:10.1.2.3]:80", "[fd00:1::9]:443"} {
		if err := g.control("tcp", a, nil); err != nil {
			t.Errorf("%s: %v", a, err)
		}
	}
	g.listedOnly = true
	if g.control("tcp", "1.1.1.1:80", nil) == nil || g.control("tcp", "10.1.2.3:80", nil) != nil {
		t.Error("without TLS only listed addresses may be dialled")
	}
}

// A redirect could lead anywhere, and a login page answers 200.
func TestARedirectIsNotFollowed(t *testing.T) {
	var reached atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached.Add(1)
		fmt.Fprint(w, `{"status":"succeeded"}`)
	}))
	defer other.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		for _, to := range []string{other.URL, "/elsewhere", "file:///etc/passwd", "http://169.254.169.254/latest"} {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					reached.Add(1)
				}
				w.Header().Set("Location", to)
				w.WriteHeader(code)
				fmt.Fprint(w, `{"status":"succeeded","error":{"code":"resource_missing"}}`)
			}))
			got := askOne(t, payments(s.URL), question("k"))
			s.Close()
			if len(got.Findings) == 1 && got.Findings[0].State != dlqbridge.EffectUnknown {
				t.Errorf("%d to %s: %+v", code, to, got)
			}
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	s := serve(t, 200, `{"status":"succeeded"}`)
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	if open(t, payments(s.URL)).client.Transport.(*http.Transport).Proxy != nil {
		t.Error("a proxy is used")
	}
}

// A server that never answers, or never ends its answer, is left when the
// asker's time is up, and that is no absence.
func TestSlowServers(t *testing.T) {
	for name, first := range map[string]string{"no answer": "", "half an answer": `{"error":{"code":"resource_missing"}`} {
		asked := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if first != "" {
				w.WriteHeader(404)
				fmt.Fprint(w, first)
				w.(http.Flusher).Flush()
			}
			close(asked)
			<-r.Context().Done()
		}))
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-asked; cancel() }()
		got := open(t, payments(s.URL)).Ask(ctx, []dlqbridge.Question{question("k")})[0]
		if got.Unavailable != "stopped before it answered" || len(got.Findings) > 0 {
			t.Errorf("%s: got %+v", name, got)
		}
		s.Close()
	}
}

func TestTimeout(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer s.Close()
	o := payments(s.URL)
	o.Timeout = 20 * time.Millisecond
	if got := askOne(t, o, question("k")); got.Unavailable != "no answer within 20ms" {
		t.Errorf("got %+v", got)
	}
}

// One object that is slow does not cost the answers about the others.
func TestASlowObjectAmongOthers(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/slow") {
			<-r.Context().Done()
			return
		}
		fmt.Fprint(w, `{"status":"succeeded"}`)
	}))
	defer s.Close()
	o := payments(s.URL)
	o.Timeout = 30 * time.Second
	r := open(t, o)
	r.handBack = time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Second)
	defer cancel()
	got := r.Ask(ctx, []dlqbridge.Question{question("a"), question("slow"), question("b")})
	if got[1].Unavailable != "no answer within the time for all questions" || ctx.Err() != nil {
		t.Errorf("got %+v, %v", got[1], ctx.Err())
	}
	for _, i := range []int{0, 2} {
		if len(got[i].Findings) != 1 || got[i].Findings[0].State != dlqbridge.EffectConfirmed {
			t.Errorf("got %+v", got[i])
		}
	}
}

// What comes over the line need not be HTTP, nor end.
func TestBrokenServers(t *testing.T) {
	for name, tt := range map[string]struct{ says, want string }{
		"closes at once":      {"", "the connection broke before the answer was complete"},
		"not HTTP":            {"SSH-2.0-OpenSSH_9.9\r\n", "cannot be reached"},
		"ends early":          {"HTTP/1.1 404 Not Found\r\nContent-Length: 999\r\n\r\n" + `{"error":{"code":"resource_missing"}}`, "the connection broke before the answer was complete"},
		"endless header":      {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", 1<<20), "cannot be reached"},
		"broken chunks":       {"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "cannot be reached"},
		"two lengths":         {"HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "cannot be reached"},
		"a status of its own": {"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n", "answered with an error of its own (status 999)"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = http.ReadRequest(bufio.NewReader(c))
				_, _ = c.Write([]byte(tt.says))
				_ = c.Close()
			}
		}()
		got := askOne(t, payments("http://"+l.Addr().String()), question("k"))
		if got.Unavailable != tt.want || len(got.Findings) > 0 {
			t.Errorf("%s: got %+v, want %q", name, got, tt.want)
		}
		_ = l.Close()
	}
	if got := askOne(t, payments("http://127.0.0.1:1"), question("k")); got.Unavailable != "connection refused" {
		t.Errorf("got %+v", got)
	}
}

// The first bytes of an endless body are read and no more.
func TestAnEndlessBody(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		block := []byte(strings.Repeat("x", 64<<10))
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	got := askOne(t, payments(s.URL), question("k"))
	if len(got.Findings) != 1 || !strings.HasPrefix(got.Findings[0].Detail, "longer than 262144 bytes") {
		t.Errorf("got %+v", got)
	}
}

func TestCertificatesAreVerified(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"status":"succeeded"}`)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo) // it complains of us
	s.StartTLS()
	defer s.Close()
	o := payments(s.URL)
	o.Roots = x509.NewCertPool()
	if got := askOne(t, o, question("k")); got.Unavailable != "the host's certificate is not valid or not trusted" {
		t.Errorf("got %+v", got)
	}
	o.Roots.AddCert(s.Certificate())
	if got := askOne(t, o, question("k")); len(got.Findings) != 1 || got.Findings[0].State != dlqbridge.EffectConfirmed {
		t.Errorf("got %+v", got)
	}
	o.URL = strings.Replace(o.URL, "127.0.0.1", "localhost", 1) // the certificate does not name it
	if got := askOne(t, o, question("k")); got.Unavailable != "the host's certificate is not valid or not trusted" {
		t.Errorf("got %+v", got)
	}
	plain := serve(t, 200, `{"status":"succeeded"}`)
	o.URL = "https://" + strings.TrimPrefix(plain.URL, "http://") + "/{taskId}"
	if got := askOne(t, o, question("k")); got.Unavailable == "" {
		t.Errorf("got %+v", got)
	}
}

// Nothing of the letter and no secret is in any word that it gives back.
func TestNothingLeaks(t *testing.T) {
	const token, key = "s3cr3t-t0ken", "key-of-a-customer"
	var header atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header.Store(r.Header.Get("Authorization"))
		fmt.Fprintf(w, `{"status":"succeeded","id":%q}`, "echo "+r.Header.Get("Authorization"))
	}))
	o := payments(s.URL)
	o.Headers = map[string]string{"authorization": "Bearer env:PAYMENTS_TOKEN"}
	o.Env = func(name string) (string, bool) { return token, name == "PAYMENTS_TOKEN" }
	r := open(t, o)
	got := r.Ask(t.Context(), []dlqbridge.Question{question(key)})[0]
	if header.Load() != "Bearer "+token {
		t.Errorf("sent %q", header.Load())
	}
	if got.Findings[0].Receipt != nil {
		t.Errorf("the receipt holds the secret: %s", *got.Findings[0].Receipt)
	}
	s.Close()
	after := r.Ask(t.Context(), []dlqbridge.Question{question(key)})[0]
	for _, text := range []string{fmt.Sprintf("%+v %+v", got, after), fmt.Sprintf("%v %+v %#v %s", r, r, r, r)} {
		if strings.Contains(text, token) || strings.Contains(text, key) {
			t.Errorf("leaks: %s", text)
		}
	}
	if after.Unavailable == "" {
		t.Errorf("got %+v", after)
	}
}
