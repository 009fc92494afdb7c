var<workgroup> shared_v93: array<f32, 64>;
@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<u32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn output_bias_weights_f32(@builtin(local_invocation_index) v287: u32, @builtin(workgroup_id) v289: vec3<u32>, @builtin(num_workgroups) v291: vec3<u32>) {
let v310 = &v17;
let v311 = &v13;
let v312 = &v9;
let v313 = &v5;
let v314 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v290 = v289[2];
let v242 = u32(v290);
let v292 = v291[1];
let v244 = u32(v292);
let v245 = v242 * v244;
let v293 = v291[0];
let v247 = u32(v293);
let v248 = v245 * v247;
let v294 = v289[1];
let v250 = u32(v294);
let v253 = v250 * v247;
let v254 = v248 + v253;
let v296 = v289[0];
let v256 = u32(v296);
let v257 = v254 + v256;
let v309 = u32(64);
let v260 = v257 * v309;
let v298 = v287;
let v262 = u32(v298);
let v263 = v260 + v262;
let v26 = v263 / v309;
let v29 = v263 % v309;
let v33 = &(*v311)[v21];
let v34 = *v33;
let v35 = u32(v34);
let v36 = v26 < v35;
let v37 = f32(0.0);
let v38 = vec4<f32>(v37);
var<function> v218_store: vec4<f32>;
let v218 = &v218_store;
*v218 = v38;
if v36 {
let v43 = &(*v312)[v26];
let v44 = *v43;
let v45 = u32(v44);
let v46 = v45 / v22;
var<function> v219_store: u32;
let v219 = &v219_store;
*v219 = v3;
var<function> v220_store: u32;
let v220 = &v220_store;
*v220 = v21;
loop {
let v51 = *v219;
let v52 = u32(1);
let v53 = v51 + v52;
let v54 = *v220;
let v55 = v53 < v54;
if !v55 { break; }
let v57 = *v219;
let v58 = *v220;
let v59 = v57 + v58;
let v60 = u32(2);
let v61 = v59 / v60;
let v65 = &(*v311)[v61];
let v66 = *v65;
let v67 = u32(v66);
let v68 = v67 <= v26;
if v68 {
*v219 = v61;

} else {
*v220 = v61;

}

}
for(var v70: u32 = v29; v70 < v23; v70 += v309) {
let v72 = v46 * v23;
let v73 = v72 + v70;
let v77 = &(*v314)[v73];
let v78 = *v77;
let v79 = *v219;
let v80 = v79 * v23;
let v81 = v80 + v70;
let v85 = &(*v313)[v81];
let v86 = *v85;
let v87 = *v218;
let v88 = fma(v78, v86, v87);
*v218 = v88;

}

}
let v89 = *v218;
var<function> v240_store: f32;
let v240 = &v240_store;
*v240 = v37;
let v226 = v89[0];
let v227 = *v240;
let v228 = v227 + v226;
*v240 = v228;
let v229 = v89[1];
let v230 = *v240;
let v231 = v230 + v229;
*v240 = v231;
let v232 = v89[2];
let v233 = *v240;
let v234 = v233 + v232;
*v240 = v234;
let v235 = v89[3];
let v236 = *v240;
let v237 = v236 + v235;
*v240 = v237;
let v238 = *v240;
let v239 = &shared_v93;
let v100 = &(*v239)[v262];
*v100 = v238;
workgroupBarrier();
let v101 = u32(32);
let v102 = v262 < v101;
if v102 {
let v104 = v262 + v101;
let v108 = &(*v239)[v104];
let v109 = *v108;
let v114 = *v100;
let v115 = v114 + v109;
*v100 = v115;

}
workgroupBarrier();
let v116 = u32(16);
let v117 = v262 < v116;
if v117 {
let v119 = v262 + v116;
let v123 = &(*v239)[v119];
let v124 = *v123;
let v129 = *v100;
let v130 = v129 + v124;
*v100 = v130;

}
workgroupBarrier();
let v131 = u32(8);
let v132 = v262 < v131;
if v132 {
let v134 = v262 + v131;
let v138 = &(*v239)[v134];
let v139 = *v138;
let v144 = *v100;
let v145 = v144 + v139;
*v100 = v145;

}
workgroupBarrier();
let v146 = u32(4);
let v147 = v262 < v146;
if v147 {
let v149 = v262 + v146;
let v153 = &(*v239)[v149];
let v154 = *v153;
let v159 = *v100;
let v160 = v159 + v154;
*v100 = v160;

}
workgroupBarrier();
let v161 = u32(2);
let v162 = v262 < v161;
if v162 {
let v164 = v262 + v161;
let v168 = &(*v239)[v164];
let v169 = *v168;
let v174 = *v100;
let v175 = v174 + v169;
*v100 = v175;

}
workgroupBarrier();
let v176 = u32(1);
let v177 = v262 < v176;
if v177 {
let v179 = v262 + v176;
let v183 = &(*v239)[v179];
let v184 = *v183;
let v189 = *v100;
let v190 = v189 + v184;
*v100 = v190;

}
workgroupBarrier();
let v195 = &(*v239)[v3];
let v196 = *v195;
let v198 = v29 == v3;
let v199 = v198 && v36;
if v199 {
let v203 = &(*v312)[v26];
let v204 = *v203;
let v205 = u32(v204);
let v209 = &(*v310)[v205];
let v210 = *v209;
let v211 = v210 + v196;
*v209 = v211;

}
return;

}
