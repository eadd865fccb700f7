// A protected notes server. Java 17.0.3 or later runs it as it is, with Jackson:
// java -cp jackson-core.jar:jackson-databind.jar:jackson-annotations.jar Server.java

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.math.BigInteger;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.security.AlgorithmParameters;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.ECGenParameterSpec;
import java.security.spec.ECParameterSpec;
import java.security.spec.ECPoint;
import java.security.spec.ECPublicKeySpec;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.regex.Pattern;

public class Server {
    static final String RESOURCE = setting("RESOURCE"); // exactly the URL that clients dial
    static final String ISSUER = setting("ISSUER"); // exactly as its metadata spells it

    // What each tool needs. A tool that is not named here is refused.
    static final Map<String, List<String>> TOOLS = Map.of("list_notes", List.of("notes:read"), "add_note", List.of("notes:write"));
    static final List<String> SCOPES = List.of("notes:read", "notes:write");

    static final String PATH = URI.create(RESOURCE).getRawPath();
    // The well-known part stands between the host and the path (RFC 9728 section 3.1).
    static final String METADATA_PATH = "/.well-known/oauth-protected-resource" + (PATH.equals("/") ? "" : PATH);
    static final String METADATA_URL = URI.create(RESOURCE).resolve(METADATA_PATH).toString();

    static final ObjectMapper JSON = new ObjectMapper()
            .enable(JsonParser.Feature.STRICT_DUPLICATE_DETECTION)
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);
    static final int MAX_BODY = 1 << 20; // bytes

    /** The keys of the issuer, by id: kept for ten minutes. A token that names an unknown key has them
     * fetched once more, but not within 30 seconds of the last try: anybody can name a key. */
    static class Keys {
        private static final HttpClient CLIENT = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(5)).build();
        private volatile Map<String, PublicKey> keys = Map.of();
        private volatile long fetched = -1; // milliseconds
        private long tried = -1;

        PublicKey get(String kid) throws Refused {
            PublicKey key = keys.get(kid);
            if (key != null && !older(fetched, 600)) return key;
            synchronized (this) {
                if (older(tried, keys.isEmpty() ? 5 : 30)) fetch();
                key = keys.get(kid);
                // While the issuer does not answer, the key may exist.
                if (older(fetched, 86400) || key == null && fetched < tried) throw new Refused(503, null, null);
            }
            if (key == null) throw Refused.token("unknown key");
            return key;
        }

        private static long now() { return System.nanoTime() / 1_000_000; }

        private static boolean older(long since, int seconds) { return since < 0 || now() - since >= seconds * 1000L; }

        private void fetch() {
            tried = now();
            try {
                var request = HttpRequest.newBuilder(URI.create(ISSUER + "/jwks.json")).timeout(Duration.ofSeconds(5)).build();
                var answer = CLIENT.send(request, BodyHandlers.ofString());
                if (answer.statusCode() != 200) throw new IOException("status " + answer.statusCode());
                var found = new HashMap<String, PublicKey>();
                for (JsonNode key : JSON.readTree(answer.body()).path("keys")) {
                    if (key.path("crv").asText().equals("P-256") && key.path("kid").isTextual()) found.put(key.get("kid").asText(), point(key));
                }
                keys = found;
                fetched = now();
            } catch (Exception e) { // whatever is wrong with the answer
                System.err.println("the issuer's keys cannot be fetched: " + e);
            }
        }

        private static PublicKey point(JsonNode key) throws GeneralSecurityException {
            var curve = AlgorithmParameters.getInstance("EC");
            curve.init(new ECGenParameterSpec("secp256r1"));
            var x = new BigInteger(1, base64(key.path("x").asText()));
            var y = new BigInteger(1, base64(key.path("y").asText()));
            return KeyFactory.getInstance("EC").generatePublic(new ECPublicKeySpec(new ECPoint(x, y), curve.getParameterSpec(ECParameterSpec.class)));
        }
    }

    static final Keys KEYS = new Keys();
    // The signature of ES256 has 64 bytes, and one spelling: its last character holds two bits.
    static final Pattern JWS = Pattern.compile("([\\w-]+)\\.([\\w-]+)\\.([\\w-]{85}[AQgw])");

    /** Returns the claims of a token (RFC 9068 section 4). */
    static JsonNode verify(String token) throws Refused {
        var parts = JWS.matcher(token);
        if (token.length() > 8192 || !parts.matches()) throw Refused.token("no JWS");
        JsonNode header = object(parts.group(1));
        // ES256, whatever the token says; no ID token, no assertion; no keys or extensions of its own.
        if (!text(header, "alg").equals("ES256") || !text(header, "typ").equalsIgnoreCase("at+jwt") || header.size() != 3) {
            throw Refused.token("no access token");
        }
        if (!signed(KEYS.get(text(header, "kid")), parts.group(1) + "." + parts.group(2), parts.group(3))) throw Refused.token("signature");
        JsonNode claims = object(parts.group(2));
        long now = System.currentTimeMillis() / 1000, leeway = 10; // seconds that the clocks may differ
        if (!text(claims, "iss").equals(ISSUER)) throw Refused.token("iss");
        if (!audience(claims.path("aud")).contains(RESOURCE)) throw Refused.token("aud"); // issued for this server
        if (time(claims, "exp") <= now - leeway || time(claims, "iat") > now + leeway) throw Refused.token("exp or iat");
        if (time(claims, "exp") - time(claims, "iat") > 86400) throw Refused.token("lives for more than a day");
        if (claims.has("nbf") && time(claims, "nbf") > now + leeway) throw Refused.token("nbf");
        if (text(claims, "sub").isEmpty() || text(claims, "client_id").isEmpty()) throw Refused.token("sub or client_id");
        if (claims.has("scope")) text(claims, "scope");
        if (claims.has("cnf")) throw Refused.token("bound to a key, so no bearer token");
        return claims;
    }

    static boolean signed(PublicKey key, String input, String signature) {
        try {
            var check = Signature.getInstance("SHA256withECDSAinP1363Format");
            check.initVerify(key);
            check.update(input.getBytes());
            return check.verify(base64(signature));
        } catch (GeneralSecurityException e) {
            return false;
        }
    }

    static byte[] base64(String text) { return Base64.getUrlDecoder().decode(text); }

    static JsonNode object(String base64) throws Refused {
        try {
            JsonNode node = JSON.readTree(base64(base64));
            if (node.isObject()) return node;
        } catch (IOException | IllegalArgumentException e) {
            // refused below
        }
        throw Refused.token("no JSON object");
    }

    static String text(JsonNode node, String name) throws Refused {
        if (!node.path(name).isTextual()) throw Refused.token(name + " must be a string");
        return node.get(name).textValue();
    }

    static long time(JsonNode node, String name) throws Refused {
        if (!node.path(name).isNumber() || !node.get(name).canConvertToLong()) throw Refused.token(name + " must be a number");
        return node.get(name).longValue();
    }

    static List<String> audience(JsonNode aud) throws Refused {
        var values = new ArrayList<String>();
        for (JsonNode value : aud.isArray() ? aud : List.of(aud)) {
            if (!value.isTextual()) throw Refused.token("aud must be strings");
            values.add(value.textValue());
        }
        return values;
    }

    static class Refused extends Exception {
        final int status;
        final String challenge;

        Refused(int status, String error, List<String> needed) {
            this.status = status;
            this.challenge = needed == null ? null : "Bearer " + (error == null ? "" : "error=\"" + error + "\", ")
                    + "scope=\"" + String.join(" ", needed) + "\", resource_metadata=\"" + METADATA_URL + "\"";
        }

        static Refused token(String why) {
            System.err.println("refused: " + why);
            return new Refused(401, "invalid_token", SCOPES);
        }

        static Refused request() { return new Refused(400, "invalid_request", SCOPES); }
    }

    static final Pattern BEARER = Pattern.compile("(?i:bearer) +([A-Za-z0-9._~+/-]+=*)");

    /** Finds out who calls, before the body is read. */
    static JsonNode authenticate(HttpExchange exchange) throws Refused {
        List<String> headers = exchange.getRequestHeaders().get("Authorization");
        if (headers == null) throw new Refused(401, null, SCOPES);
        var token = BEARER.matcher(headers.get(0));
        String query = exchange.getRequestURI().getQuery();
        // A token in the URL ends up in logs (RFC 6750 section 5.3).
        if (headers.size() > 1 || !token.matches() || query != null && query.contains("access_token=")) throw Refused.request();
        return verify(token.group(1));
    }

    /** Judges the message, and returns the object that the server gets too. */
    static JsonNode authorize(JsonNode claims, byte[] body) throws Refused {
        JsonNode message;
        try {
            message = JSON.readTree(body);
        } catch (IOException e) {
            throw Refused.request();
        }
        if (!message.isObject()) throw Refused.request();
        if (!message.path("method").asText().equals("tools/call")) return message; // any valid token
        List<String> needed = TOOLS.get(message.path("params").path("name").asText());
        if (needed == null) throw new Refused(403, null, null);
        if (!List.of(claims.path("scope").asText().split(" ")).containsAll(needed)) throw new Refused(403, "insufficient_scope", needed);
        return message;
    }

    static void guard(HttpExchange exchange) throws IOException {
        try (exchange) {
            try {
                if (exchange.getRequestMethod().equals("GET") && exchange.getRequestURI().getRawPath().equals(METADATA_PATH)) {
                    answer(exchange, 200, Map.of("resource", RESOURCE, "authorization_servers", List.of(ISSUER),
                            "scopes_supported", SCOPES, "bearer_methods_supported", List.of("header")));
                    return;
                }
                JsonNode claims = authenticate(exchange);
                if (!exchange.getRequestMethod().equals("POST")) throw new Refused(405, null, null);
                byte[] body = exchange.getRequestBody().readNBytes(MAX_BODY + 1);
                if (body.length > MAX_BODY) throw new Refused(413, null, null);
                notes(exchange, claims.get("sub").textValue(), authorize(claims, body));
            } catch (Refused e) {
                if (e.challenge != null) exchange.getResponseHeaders().set("WWW-Authenticate", e.challenge);
                if (e.status == 503) exchange.getResponseHeaders().set("Retry-After", "5"); // a client throws its token away at 401
                exchange.sendResponseHeaders(e.status, -1);
            }
        }
    }

    static final Map<String, List<String>> NOTES = new ConcurrentHashMap<>(); // by subject

    static void notes(HttpExchange exchange, String subject, JsonNode message) throws IOException {
        if (!message.has("id")) {
            exchange.sendResponseHeaders(202, -1);
            return;
        }
        var reply = new HashMap<String, Object>(Map.of("jsonrpc", "2.0", "id", message.get("id")));
        switch (message.path("method").asText()) {
            case "initialize" -> reply.put("result", Map.of("protocolVersion", "2025-11-25", "capabilities", Map.of("tools", Map.of()),
                    "serverInfo", Map.of("name", "notes", "version", "1.0.0")));
            case "ping" -> reply.put("result", Map.of());
            case "tools/list" -> reply.put("result", Map.of("tools", List.of(
                    Map.of("name", "list_notes", "inputSchema", Map.of("type", "object")),
                    Map.of("name", "add_note", "inputSchema", Map.of("type", "object", "properties", Map.of("text", Map.of("type", "string")))))));
            case "tools/call" -> reply.put("result", Map.of("content", List.of(Map.of("type", "text", "text", call(subject, message.get("params"))))));
            default -> reply.put("error", Map.of("code", -32601, "message", "There is no such method."));
        }
        answer(exchange, 200, reply);
    }

    static String call(String subject, JsonNode params) {
        List<String> own = NOTES.getOrDefault(subject, List.of());
        if (params.path("name").asText().equals("list_notes")) return String.join("\n", own);
        var more = new ArrayList<>(own.subList(Math.max(0, own.size() - 99), own.size()));
        String note = params.path("arguments").path("text").asText();
        more.add(note.substring(0, Math.min(1000, note.length())));
        NOTES.put(subject, more);
        return "added";
    }

    static void answer(HttpExchange exchange, int status, Object value) throws IOException {
        byte[] body = JSON.writeValueAsBytes(value);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(status, body.length);
        exchange.getResponseBody().write(body);
    }

    static String setting(String name) {
        String value = System.getenv(name);
        if (value == null || value.isEmpty()) throw new IllegalStateException("set " + name);
        return value;
    }

    public static void main(String[] arguments) throws IOException {
        int port = Integer.parseInt(System.getenv().getOrDefault("PORT", "9000"));
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.setExecutor(Executors.newFixedThreadPool(16));
        server.createContext("/", Server::guard);
        server.start();
    }
}
