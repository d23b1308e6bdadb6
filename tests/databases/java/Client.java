import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;

/** MariaDB Connector/J, MySQL Connector/J and pgjdbc: does what is asked, prints a line for each. */
public final class Client {
    static final String POSTGRES_WHO =
        "SELECT usename || ' ' || ssl FROM pg_stat_activity JOIN pg_stat_ssl USING (pid) "
            + "WHERE pid = pg_backend_pid()";

    public static void main(String[] words) throws Exception {
        String driver = words[0];
        List<String> actions = new ArrayList<>(List.of(words).subList(5, words.length));
        Properties options = options(driver, words[4]);
        options.put("user", words[2]);
        options.put("password", words[3]);
        while (!actions.isEmpty() && actions.get(0).startsWith("-")) {
            String[] option = actions.remove(0).substring(1).split("=", 2);
            options.put(option[0], option[1]);
        }
        String url = "jdbc:" + driver + "://localhost:" + words[1] + "/";
        if (driver.equals("postgresql")) {
            url += "postgres";
        }
        try (Connection connection = DriverManager.getConnection(url, options)) {
            for (String action : actions) {
                System.out.println(act(connection, driver, action, words[3]));
            }
        } catch (SQLException error) {
            System.out.println("error " + error.getErrorCode() + " " + error.getSQLState() + " "
                + reasons(error));
            System.exit(1);
        }
    }

    static Properties options(String driver, String ca) throws Exception {
        Properties options = new Properties();
        boolean isTls = !ca.isEmpty();
        switch (driver) {
            case "mariadb" -> {
                options.put("sslMode", isTls ? "verify-full" : "disable");
                options.put("allowLocalInfile", "true");
                if (isTls) {
                    options.put("serverSslCert", ca);
                }
            }
            case "mysql" -> {
                options.put("sslMode", isTls ? "VERIFY_IDENTITY" : "DISABLED");
                options.put("allowLoadLocalInfile", "true");
                if (isTls) {
                    options.put("trustCertificateKeyStoreUrl", "file:" + store(ca));
                    options.put("trustCertificateKeyStoreType", "PKCS12");
                    options.put("trustCertificateKeyStorePassword", "secret");
                }
            }
            default -> {
                options.put("sslmode", isTls ? "verify-full" : "disable");
                if (isTls) {
                    options.put("sslrootcert", ca);
                }
            }
        }
        return options;
    }

    /** The authority as a key store: Connector/J reads no PEM. */
    static Path store(String ca) throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (FileInputStream pem = new FileInputStream(ca)) {
            var certificate = CertificateFactory.getInstance("X.509").generateCertificate(pem);
            store.setCertificateEntry("ca", certificate);
        }
        Path path = Files.createTempFile(Path.of(ca).getParent(), "store", ".p12");
        try (FileOutputStream out = new FileOutputStream(path.toFile())) {
            store.store(out, "secret".toCharArray());
        }
        return path;
    }

    static String reasons(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable one = error; one != null; one = one.getCause()) {
            text.append(one.getMessage()).append("; ");
        }
        return text.toString().replace('\n', ' ');
    }

    static String act(Connection connection, String driver, String action, String password)
            throws SQLException {
        boolean isPostgres = driver.equals("postgresql");
        String[] parts = action.split("=", 2);
        switch (parts[0]) {
            case "change":
                connection.unwrap(com.mysql.cj.jdbc.JdbcConnection.class)
                    .changeUser(parts[1], password);
                return "who " + value(connection, "SELECT CURRENT_USER()");
            case "who":
                String who = isPostgres ? POSTGRES_WHO : "SELECT CURRENT_USER()";
                return "who " + value(connection, who);
            case "prepared":
                try (var statement = connection.prepareStatement("SELECT ? + 1")) {
                    statement.setInt(1, 41);
                    try (var rows = statement.executeQuery()) {
                        rows.next();
                        return "prepared " + rows.getInt(1);
                    }
                }
            case "large":
                return "large " + value(connection, "SELECT REPEAT('x', 3000000)").length();
            case "load":
                try (Statement statement = connection.createStatement()) {
                    statement.execute("CREATE TEMPORARY TABLE test.rows (a INT)");
                    statement.execute(
                        "LOAD DATA LOCAL INFILE '" + parts[1] + "' INTO TABLE test.rows");
                }
                return "load " + value(connection, "SELECT SUM(a) FROM test.rows");
            case "cancel":
                try (Statement statement = connection.createStatement()) {
                    statement.setQueryTimeout(1);
                    statement.execute("SELECT pg_sleep(600)");
                    return "cancel nothing";
                } catch (SQLException error) {
                    return "cancel " + error.getSQLState();
                }
            default:
                throw new IllegalArgumentException(action);
        }
    }

    static String value(Connection connection, String query) throws SQLException {
        try (Statement statement = connection.createStatement();
                var rows = statement.executeQuery(query)) {
            rows.next();
            return rows.getString(1);
        }
    }
}
