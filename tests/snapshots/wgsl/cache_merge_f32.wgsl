@group(0) @binding(5) var<storage, read_write> v21: array<f32>;
@group(0) @binding(4) var<storage, read_write> v17: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v13: array<u32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 20>, scalars_f32: array<f32, 2>, scalars_i32: array<i32, 8>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn cache_merge_f32(@builtin(workgroup_id) v258: vec3<u32>, @builtin(num_workgroups) v260: vec3<u32>, @builtin(local_invocation_index) v267: u32) {
let v298 = &v21;
let v299 = &v17;
let v300 = &v13;
let v301 = &v9;
let v302 = &v5;
let v303 = &v1;
let v3 = u32(0);
let v158 = info_var.static_meta[4];
let v53 = info_var.scalars_usize[18];
let v54 = info_var.scalars_usize[19];
let v259 = v258[2];
let v167 = u32(v259);
let v261 = v260[1];
let v169 = u32(v261);
let v170 = v167 * v169;
let v262 = v260[0];
let v172 = u32(v262);
let v173 = v170 * v172;
let v263 = v258[1];
let v175 = u32(v263);
let v178 = v175 * v172;
let v179 = v173 + v178;
let v265 = v258[0];
let v181 = u32(v265);
let v182 = v179 + v181;
let v293 = u32(64);
let v185 = v182 * v293;
let v268 = v267;
let v187 = u32(v268);
let v188 = v185 + v187;
let v57 = v188 < v158;
if v57 {
let v59 = v188 / v53;
let v61 = v188 % v53;
let v62 = f32(-3.4028234663852886e38);
var<function> v160_store: f32;
let v160 = &v160_store;
*v160 = v62;
let v65 = f32(0.0);
var<function> v161_store: f32;
let v161 = &v161_store;
*v161 = v65;
let v69 = vec4<f32>(v65);
var<function> v162_store: vec4<f32>;
let v162 = &v162_store;
*v162 = v69;
let v71 = v59 * v54;
let v72 = u32(1);
let v73 = v59 + v72;
let v74 = v73 * v54;
for(var v76: u32 = v71; v76 < v74; v76 += v72) {
let v78 = u32(2);
let v79 = v78 * v76;
let v81 = v79 + v72;
let v85 = &(*v302)[v81];
let v86 = *v85;
let v87 = bitcast<u32>(v86);
let v88 = u32(0);
let v89 = v87 != v88;
if v89 {
let v95 = &(*v302)[v79];
let v96 = *v95;
let v97 = *v160;
let v98 = max(v97, v96);
let v100 = v97 - v98;
let v101 = exp(v100);
let v102 = v96 - v98;
let v103 = exp(v102);
*v160 = v98;
let v104 = *v161;
let v106 = v86 * v103;
let v297 = fma(v104, v101, v106);
*v161 = v297;
let v108 = v76 * v53;
let v109 = v108 + v61;
let v113 = &(*v303)[v109];
let v114 = *v113;
let v115 = vec4<f32>(v103);
let v116 = vec4<f32>(v101);
let v117 = *v162;
let v118 = v117 * v116;
let v119 = fma(v114, v115, v118);
*v162 = v119;

}

}
var<function> v164_store: f32;
let v164 = &v164_store;
*v164 = v65;
var<function> v165_store: f32;
let v165 = &v165_store;
*v165 = v62;
let v126 = *v161;
let v127 = bitcast<u32>(v126);
let v128 = u32(0);
let v129 = v127 != v128;
if v129 {
let v130 = f32(1.0);
let v132 = v130 / v126;
*v164 = v132;
let v133 = *v161;
let v134 = log(v133);
let v135 = *v160;
let v136 = v135 + v134;
*v165 = v136;

}
let v137 = *v164;
let v138 = vec4<f32>(v137);
let v139 = *v162;
let v140 = v139 * v138;
let v145 = &(*v299)[v188];
*v145 = v140;
let v147 = v61 == v3;
if v147 {
let v151 = &(*v298)[v59];
let v152 = *v165;
*v151 = v152;

}

}
return;

}
